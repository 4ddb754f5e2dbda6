// Hashing packages of npm, for bench/hashing.py: a job on each line of input, its seconds back.
// node peer.mjs FOLDER, where FOLDER holds node_modules.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.argv[2] + "/node_modules/");
const hashtree = require("@chainsafe/hashtree");
const shuffle = require("@chainsafe/swap-or-not-shuffle");

const jobs = {
  pairs({ count, repeat }) {
    const input = new Uint8Array(64 * count).fill(1);
    const output = new Uint8Array(32 * count);
    return () => {
      for (let i = 0; i < repeat; i++) hashtree.hashInto(input, output);
    };
  },
  shuffle({ count, rounds }) {
    const indices = Uint32Array.from({ length: count }, (_, i) => i);
    const seed = new Uint8Array(32).fill(7);
    return () => shuffle.unshuffleList(indices, seed, rounds);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  const run = jobs[job.name](job);
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  run();
  const wall = Number(process.hrtime.bigint() - start) / 1e9;
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({ wall, cpu: (used.user + used.system) / 1e6 }));
}
