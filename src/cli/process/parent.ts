import { aliveEveryMs, isWorkerOrder, type WorkerAlive, type WorkerOrder, type WorkerReady } from "./worker-messages.ts";

/** The parent, as a worker sees it. */
export interface Parent {
  /** Says that calls are taken, and from then on, now and then, that this process still does something. */
  ready(port: number): void;
  /** What it was told, and what it will be. A parent that is gone wants everything to come to its end. */
  onOrder(obey: (order: WorkerOrder) => void): void;
}

/** Null where nobody started this process as a worker. Before anybody obeys, orders are kept. */
export function parentOf(own: NodeJS.Process): Parent | null {
  if (own.send === undefined) return null;
  const early: WorkerOrder[] = [];
  let obey = (order: WorkerOrder): void => {
    early.push(order);
  };
  own.on("message", (message) => {
    if (isWorkerOrder(message)) obey(message);
  });
  own.on("disconnect", () => obey("hurry"));
  return {
    ready: (port) => {
      const tell = (message: WorkerReady | WorkerAlive): void => {
        if (own.connected) own.send?.(message);
      };
      tell({ port });
      setInterval(() => tell("alive"), aliveEveryMs).unref();
    },
    onOrder: (then) => {
      obey = then;
      for (const order of early.splice(0)) then(order);
    },
  };
}
