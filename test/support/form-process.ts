import { readFileSync, writeFileSync } from "node:fs";
import { openFormServer } from "./form-server.ts";

/**
 * The same server in a process of its own, so that its memory is not that of its clients. On its standard input it takes
 * `mark`, which begins a measurement, and `tell`, upon which it prints one.
 */
const server = openFormServer();
const readyLine = JSON.stringify({ url: server.url, directory: server.directory });
process.stdout.write(`${readyLine}\n`);

export interface Measured {
  /** The most memory it had since the mark, over what it had then. */
  readonly growthBytes: number;
  /** How late a timer rang, at worst but for one time in a hundred. */
  readonly lateMs: number;
  readonly openFiles: number;
}

const tickMs = 5;
let beginBytes = 0;
const lates: number[] = [];
let lastMs = performance.now();
setInterval(() => {
  const nowMs = performance.now();
  lates.push(nowMs - lastMs - tickMs);
  lastMs = nowMs;
}, tickMs);

for await (const line of console) {
  if (line === "mark") {
    Bun.gc(true);
    // Makes the system forget the highest it has seen.
    writeFileSync("/proc/self/clear_refs", "5");
    beginBytes = statusOf("VmRSS");
    lates.length = 0;
    process.stdout.write("{}\n");
  } else if (line === "tell") {
    const measured: Measured = {
      growthBytes: statusOf("VmHWM") - beginBytes,
      lateMs: lates.toSorted((a, b) => a - b).at(Math.floor(lates.length * 0.99)) ?? 0,
      openFiles: server.openFiles(),
    };
    process.stdout.write(`${JSON.stringify(measured)}\n`);
  }
}
await server.close();
process.exit(0);

function statusOf(name: string): number {
  const line = readFileSync("/proc/self/status", "utf8")
    .split("\n")
    .find((candidate) => candidate.startsWith(`${name}:`));
  return Number(/\d+/.exec(line ?? "")?.[0]) * 1024;
}
