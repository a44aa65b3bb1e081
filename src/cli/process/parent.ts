import { aliveEveryMs, isWorkerOrder, type WorkerAlive, type WorkerOrder, type WorkerReady } from "./worker-messages.ts";

/** The parent process, as a worker sees it. */
export interface Parent {
  /** Reports that this process takes calls, and from then on regularly that its event loop still runs. */
  ready(port: number): void;
  /** Receives the orders so far, and later ones. If the parent is gone, the worker shuts down. */
  onOrder(handle: (order: WorkerOrder) => void): void;
}

/** Null if this process is not a worker. Orders are kept until a handler is set. */
export function parentOf(own: NodeJS.Process): Parent | null {
  if (own.send === undefined) return null;
  const early: WorkerOrder[] = [];
  let handle = (order: WorkerOrder): void => {
    early.push(order);
  };
  own.on("message", (message) => {
    if (isWorkerOrder(message)) handle(message);
  });
  own.on("disconnect", () => handle("hurry"));
  return {
    ready: (port) => {
      const tell = (message: WorkerReady | WorkerAlive): void => {
        if (own.connected) own.send?.(message);
      };
      tell({ port });
      setInterval(() => tell("alive"), aliveEveryMs).unref();
    },
    onOrder: (then) => {
      handle = then;
      for (const order of early.splice(0)) then(order);
    },
  };
}
