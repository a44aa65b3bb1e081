import { Worker } from "node:worker_threads";
import { progress } from "./progress.ts";
import type { Watched } from "./watch-worker.ts";

/**
 * Ends this process when the work stands still for so long or takes too much memory, or when whoever started it is gone. A file may be made so that a
 * decoder never comes back from it, and the thread it holds notices nothing any more: so another one watches.
 */
export function watch(stallMs: number, fileBytes: number): void {
  const workerData: Watched = { progress, stallMs, fileBytes, parent: process.ppid };
  new Worker(new URL("./watch-worker.ts", import.meta.url), { workerData }).unref();
}
