import { Worker } from "node:worker_threads";
import type { CarefulOrder, CarefulReply } from "./careful-order.ts";

/**
 * Has a text read by a thread of its own, which is begun for it and ends with it. Null where there is no such thread, or where it
 * dies of the text: whoever asked then reads it himself.
 */
export async function carryOutElsewhere(order: CarefulOrder): Promise<CarefulReply | null> {
  // The process's own environment is no plain object, and only plain ones travel.
  const worker = begun({ ...order, environment: { ...order.environment } });
  if (worker === null) return null;
  const { promise, resolve } = Promise.withResolvers<CarefulReply | null>();
  worker.unref();
  worker.on("message", resolve);
  worker.on("error", () => resolve(null));
  worker.on("exit", () => resolve(null));
  return promise;
}

function begun(workerData: CarefulOrder): Worker | null {
  try {
    return new Worker(new URL("./careful-thread.ts", import.meta.url), { workerData });
  } catch {
    return null;
  }
}
