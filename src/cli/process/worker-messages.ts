/** What a parent tells its workers to do. `stop` waits for load balancers, `hurry` does not, `end` waits for nobody. */
export type WorkerOrder = "stop" | "hurry" | "end" | "reload";

/** What a worker tells its parent: it takes calls, on this port. */
export interface WorkerReady {
  readonly port: number;
}

/** What a worker that takes calls says again and again: its event loop turns. */
export type WorkerAlive = "alive";

/** Cheap, and often enough to be told from silence soon. */
export const aliveEveryMs = 1_000;

export function isWorkerAlive(message: unknown): message is WorkerAlive {
  return message === "alive";
}

export function isWorkerOrder(message: unknown): message is WorkerOrder {
  return message === "stop" || message === "hurry" || message === "end" || message === "reload";
}

export function isWorkerReady(message: unknown): message is WorkerReady {
  return typeof message === "object" && message !== null && Number.isInteger((message as Partial<WorkerReady>).port);
}
