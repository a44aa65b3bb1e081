import { Worker } from "node:worker_threads";

/** The progress of the work in shared memory, because a busy thread cannot answer messages. */
export const progress = new Int32Array(new SharedArrayBuffer(8));
export const stepsAt = 0;
export const waitingAt = 1;

export function oneStep(): void {
  Atomics.add(progress, stepsAt, 1);
}

/** While the process waits for its streams, no progress is expected. */
export function whileWaiting<T>(act: () => T): T {
  Atomics.store(progress, waitingAt, 1);
  try {
    return act();
  } finally {
    oneStep();
    Atomics.store(progress, waitingAt, 0);
  }
}

export interface WatchdogOptions {
  readonly progress: Int32Array;
  readonly stallMs: number;
  /** The size of the file on disk. Its mapped pages count as memory of this process. */
  readonly fileBytes: number;
  /** The parent process. */
  readonly parent: number;
}

/**
 * Kills this process if the work makes no progress for so long, if it uses too much memory, or if its parent has exited. A malicious file
 * may make a decoder loop forever and block this thread, so that a worker watches it.
 */
export function startWatchdog(stallMs: number, fileBytes: number): void {
  const workerData: WatchdogOptions = { progress, stallMs, fileBytes, parent: process.ppid };
  new Worker(new URL("./watch-worker.ts", import.meta.url), { workerData }).unref();
}
