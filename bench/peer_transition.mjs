// `@lodestar/state-transition` of npm, for bench/consensus.py: the path of an altair state at the end of an epoch on
// each line of input, the seconds of the epoch's transition back. node peer_transition.mjs FOLDER, where FOLDER
// holds node_modules.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

process.env.LODESTAR_PRESET = "mainnet";
const load = (path) => import(pathToFileURL(`${process.argv[2]}/node_modules/@lodestar/${path}`));
const { ssz } = await load("types/lib/index.js");
const { defaultChainConfig } = await load("config/lib/chainConfig/default.js");
const { createIBeaconConfig } = await load("config/lib/index.js");
const transition = await load("state-transition/lib/index.js");
const { processEpoch } = await load("state-transition/lib/epoch/index.js");
const { ForkSeq } = await load("params/lib/index.js");

// The state with its caches, which a node always has.
function makeCached(path) {
  const state = ssz.altair.BeaconState.deserializeToViewDU(readFileSync(path));
  state.hashTreeRoot();
  const chain = { ...defaultChainConfig, ALTAIR_FORK_EPOCH: 0 };
  const immutable = {
    config: createIBeaconConfig(chain, state.genesisValidatorsRoot),
    pubkey2index: new transition.PubkeyIndexMap(),
    index2pubkey: [],
  };
  const skip = { skipSyncPubkeys: true, skipSyncCommitteeCache: true };
  return transition.createCachedBeaconState(state, immutable, skip);
}

let cached = null;
for await (const line of createInterface({ input: process.stdin })) {
  cached ??= makeCached(JSON.parse(line).path);
  const state = cached.clone();
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  processEpoch(ForkSeq.altair, state, transition.beforeProcessEpoch(state));
  state.commit();
  const wall = Number(process.hrtime.bigint() - start) / 1e9;
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({ wall, cpu: (used.user + used.system) / 1e6 }));
}
