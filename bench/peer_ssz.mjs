// `@chainsafe/ssz` of npm, with its fastest hasher, for bench/consensus.py: a registry's path on each line of
// input, the seconds of its root back. node peer_ssz.mjs FOLDER, where FOLDER holds node_modules.
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const packages = `${process.argv[2]}/node_modules/@chainsafe`;
const load = (path) => import(pathToFileURL(`${packages}/${path}`));
const { BooleanType, ByteVectorType, ContainerNodeStructType, ListCompositeType, UintNumberType } =
  await load("ssz/lib/index.js");
const nested = "ssz/node_modules/@chainsafe/persistent-merkle-tree";
const tree = existsSync(`${packages}/${nested}`) ? nested : "persistent-merkle-tree";
const { setHasher } = await load(`${tree}/lib/index.js`);
const { hasher } = await load(`${tree}/lib/hasher/hashtree.js`);
await hasher.initialize?.();
setHasher(hasher);

const uint64 = new UintNumberType(8, { clipInfinity: true });
const Validator = new ContainerNodeStructType({
  pubkey: new ByteVectorType(48),
  withdrawalCredentials: new ByteVectorType(32),
  effectiveBalance: new UintNumberType(8),
  slashed: new BooleanType(),
  activationEligibilityEpoch: uint64,
  activationEpoch: uint64,
  exitEpoch: uint64,
  withdrawableEpoch: uint64,
});
const Registry = new ListCompositeType(Validator, 2 ** 40);

for await (const line of createInterface({ input: process.stdin })) {
  const registry = Registry.deserializeToViewDU(readFileSync(JSON.parse(line).path));
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  registry.hashTreeRoot();
  const wall = Number(process.hrtime.bigint() - start) / 1e9;
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({ wall, cpu: (used.user + used.system) / 1e6 }));
}
