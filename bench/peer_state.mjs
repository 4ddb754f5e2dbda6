// `@lodestar/types` of npm, for bench/sync.py: a state's path and root on each line of input, its seconds back.
// node peer_state.mjs FOLDER, where FOLDER holds node_modules.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

process.env.LODESTAR_PRESET = "mainnet";
const { ssz } = await import(pathToFileURL(process.argv[2] + "/node_modules/@lodestar/types/lib/index.js"));

for await (const line of createInterface({ input: process.stdin })) {
  const { path, root } = JSON.parse(line);
  const data = readFileSync(path);
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  const found = Buffer.from(ssz.capella.BeaconState.deserializeToViewDU(data).hashTreeRoot()).toString("hex");
  const wall = Number(process.hrtime.bigint() - start) / 1e9;
  const used = process.cpuUsage(cpu);
  if (found !== root) throw new Error(`the roots differ: ${found} here, ${root} there`);
  console.log(JSON.stringify({ wall, cpu: (used.user + used.system) / 1e6 }));
}
