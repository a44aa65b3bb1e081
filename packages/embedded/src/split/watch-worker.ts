import { writeSync } from "node:fs";
import { workerData } from "node:worker_threads";
import { headFrame } from "./frames.ts";
import { stepsAt, waitingAt } from "./progress.ts";

export interface Watched {
  readonly progress: Int32Array;
  readonly stallMs: number;
  /** The process that started ours. */
  readonly parent: number;
}

const { progress, stallMs, parent } = workerData as Watched;
let steps = -1;
let steppedMs = performance.now();

setInterval(look, Math.min(1000, stallMs / 4));

function look(): void {
  if (process.ppid !== parent) end();
  const now = Atomics.load(progress, stepsAt);
  if (now !== steps || Atomics.load(progress, waitingAt) === 1) {
    steps = now;
    steppedMs = performance.now();
    return;
  }
  if (performance.now() - steppedMs < stallMs) return;
  try {
    // Short enough to be written at once or not at all.
    writeSync(1, headFrame({ type: "failed", reason: "undecodable", message: "It takes too long, so it cannot be decoded." }));
  } catch {
    // Nobody reads it.
  }
  end();
}

/** An exit from this thread would end this thread only. */
function end(): void {
  process.kill(process.pid, "SIGKILL");
}
