import { writeSync } from "node:fs";
import { workerData } from "node:worker_threads";
import { startWorkingTime } from "../codecs/working-time.ts";
import { headFrame } from "./frames.ts";
import { stepsAt, waitingAt, type WatchdogOptions } from "./progress.ts";

/** Splitting needs a few minutes of audio in memory. A file that needs more was made to use all of it. */
const memoryBytesMax = 2 * 1024 ** 3;

const { progress, stallMs, fileBytes, parent } = workerData as WatchdogOptions;
let steps = -1;
let workedMs = startWorkingTime();

setInterval(check, Math.min(250, stallMs / 4));

function check(): void {
  if (process.ppid !== parent) kill();
  if (process.memoryUsage.rss() > memoryBytesMax + fileBytes) return fail("Decoding it needs too much memory.");
  const now = Atomics.load(progress, stepsAt);
  if (now !== steps || Atomics.load(progress, waitingAt) === 1) {
    steps = now;
    workedMs = startWorkingTime();
    return;
  }
  if (workedMs() >= stallMs) fail("Decoding it takes too long.");
}

function fail(message: string): void {
  try {
    // Short enough that a pipe accepts all of it or nothing.
    writeSync(1, headFrame({ type: "failed", reason: "undecodable", message }));
  } catch {
    // Nobody reads it.
  }
  kill();
}

/** `process.exit` in a worker would only end the worker. */
function kill(): void {
  process.kill(process.pid, "SIGKILL");
}
