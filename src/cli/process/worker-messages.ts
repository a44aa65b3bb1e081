/** What a parent tells its workers. `stop` waits for load balancers and calls, `hurry` for calls only, `end` for nothing. */
export type WorkerOrder = "stop" | "hurry" | "end" | "reload";

/** What a worker tells its parent once it takes calls on this port. */
export interface WorkerReady {
  readonly port: number;
}

/** What a worker sends regularly while its event loop runs. */
export type WorkerAlive = "alive";

/** Often enough to notice soon when a worker hangs. */
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
