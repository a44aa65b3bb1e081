import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * Starts a thread of the store. It collects garbage early (`smol`, an option of the runtime): what it makes are rows and messages that
 * are garbage at once, and a heap that may grow to tens of megabytes before it is looked at takes more memory and no less time.
 */
export function startStoreThread(script: string | URL, workerData: unknown): Worker {
  const options: WorkerOptions & { readonly smol: boolean } = { workerData, smol: true };
  return new Worker(script, options);
}
