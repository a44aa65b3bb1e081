import { writeSync } from "node:fs";
import { workerData } from "node:worker_threads";
import { startWorkingTime } from "../codecs/working-time.ts";
import { headFrame } from "./frames.ts";
import { stepsAt, waitingAt } from "./progress.ts";

export interface Watched {
  readonly progress: Int32Array;
  readonly stallMs: number;
  /** How long the file is, which lies on the disk: what of it was read counts as our memory too. */
  readonly fileBytes: number;
  /** The process that started ours. */
  readonly parent: number;
}

/** It holds a few minutes of sound: beyond this, the file was made to take all there is. */
const memoryBytesMax = 2 * 1024 ** 3;

const { progress, stallMs, fileBytes, parent } = workerData as Watched;
let steps = -1;
let workedMs = startWorkingTime();

setInterval(look, Math.min(250, stallMs / 4));

function look(): void {
  if (process.ppid !== parent) end();
  if (process.memoryUsage.rss() > memoryBytesMax + fileBytes) return giveUp("It takes too much memory, so it cannot be decoded.");
  const now = Atomics.load(progress, stepsAt);
  if (now !== steps || Atomics.load(progress, waitingAt) === 1) {
    steps = now;
    workedMs = startWorkingTime();
    return;
  }
  if (workedMs() >= stallMs) giveUp("It takes too long, so it cannot be decoded.");
}

function giveUp(message: string): void {
  try {
    // Short enough to be written at once or not at all.
    writeSync(1, headFrame({ type: "failed", reason: "undecodable", message }));
  } catch {
    // Nobody reads it.
  }
  end();
}

/** An exit from this thread would end this thread only. */
function end(): void {
  process.kill(process.pid, "SIGKILL");
}
