import { Worker } from "node:worker_threads";
import { StorageTrouble } from "../../gateway/storage.ts";
import type { DrainThreadOptions, FromDrain, ToDrain } from "./drain-message.ts";
import type { Journal } from "../journal/journal.ts";
import type { OpenOptions } from "../open.ts";

export interface DrainOptions {
  readonly journal: Journal;
  readonly database: OpenOptions;
  /** Is told once when receipts cannot get into the store, and with null when they can again. */
  readonly onTrouble: (message: string | null) => void;
  /** Is told of damage in a journal, in words. */
  readonly onReport: (message: string) => void;
  /** How long receipts gather before they are carried on together, where only few come; ten times as long where many do. */
  readonly pollMs?: number;
  /** How often it is looked for journals of processes that have died. */
  readonly adoptMs?: number;
}

export interface Drain {
  lag(): DrainLag;
  /** Resolves when everything written so far, also in earlier lives of this slot, is in the store; not before the store is there. Rejects when it is stopped. */
  idle(): Promise<void>;
  /** Ends between two batches. What is not drained waits for the next start. */
  stop(): Promise<void>;
}

export interface DrainLag {
  readonly bytes: number;
  readonly receipts: number;
  /** Receipts wait because the store is not to be had. */
  readonly degraded: boolean;
}

/** Starts the thread that carries receipts from the journal into the store. Should it die, it is started again. */
export function startDrain(options: DrainOptions): Drain {
  return new DrainWorker(options);
}

class DrainWorker implements Drain {
  private worker: Worker;
  private state: Extract<FromDrain, { kind: "state" }> = { kind: "state", trouble: null, behindBytes: 0, receipts: 0 };
  private readonly asks = new Map<number, IdleRequest>();
  private lastAsk = 0;
  private stopping: PromiseWithResolvers<void> | null = null;
  private ended: Promise<void> = Promise.resolve();
  private restart: ReturnType<typeof setTimeout> | null = null;
  /** The thread is at work, or will be in a moment, and says so when it has done everything. */
  private working = true;
  /** How many receipts were in the store when the thread last rested, and how many it had carried on since it rested before. */
  private receiptsAtRest = 0;
  private receiptsLastRound = 0;

  constructor(private readonly options: DrainOptions) {
    this.worker = this.started();
    options.journal.watch(() => this.wakeSoon());
  }

  lag(): DrainLag {
    const { behindBytes, receipts, trouble } = this.state;
    return {
      bytes: behindBytes,
      receipts: Math.max(0, this.options.journal.written().receipts - receipts),
      degraded: trouble !== null,
    };
  }

  async idle(): Promise<void> {
    await this.options.journal.flush();
    const { segment, position } = this.options.journal.written();
    await new Promise<void>((resolve, reject) => {
      if (this.stopping !== null) {
        reject(stopped());
        return;
      }
      const ask = ++this.lastAsk;
      const message: ToDrain = { kind: "ask", ask, segment, position };
      this.asks.set(ask, { message, resolve, reject });
      this.worker.ref();
      this.send(message);
    });
  }

  async stop(): Promise<void> {
    if (this.stopping === null) {
      this.stopping = Promise.withResolvers<void>();
      if (this.restart !== null) {
        clearTimeout(this.restart);
        this.stopping.resolve();
      }
      this.worker.ref();
      this.send({ kind: "stop" });
      const timer = setTimeout(() => this.stopping?.resolve(), stopMsMax);
      this.ended = this.stopping.promise.then(async () => {
        clearTimeout(timer);
        for (const { reject } of this.asks.values()) reject(stopped());
        this.asks.clear();
        await this.worker.terminate();
      });
    }
    await this.ended;
  }

  private started(): Worker {
    const { journal, database, adoptMs = adoptMsDefault } = this.options;
    const workerData: DrainThreadOptions = {
      folder: journal.folder,
      slotFolder: journal.slotFolder,
      firstSegment: journal.firstSegment,
      database,
      adoptMs,
    };
    const worker = new Worker(new URL("./drain-thread.ts", import.meta.url), { workerData });
    worker.on("message", (message: FromDrain) => this.onMessage(message));
    worker.on("error", (error) => this.onWorkerLost(worker, error instanceof Error ? error.message : String(error)));
    worker.on("exit", () => this.onWorkerLost(worker, "it ended"));
    // A program may end while its receipts are drained: they are in the journal.
    if (this.asks.size === 0) worker.unref();
    return worker;
  }

  private send(message: ToDrain): void {
    if (this.restart === null) this.worker.postMessage(message, []);
  }

  private onMessage(message: FromDrain): void {
    switch (message.kind) {
      case "state":
        this.setState(message);
        break;
      case "resting":
        this.working = false;
        this.receiptsLastRound = this.state.receipts - this.receiptsAtRest;
        this.receiptsAtRest = this.state.receipts;
        if (this.isBehind(message)) this.wakeSoon();
        break;
      case "report":
        this.options.onReport(message.message);
        break;
      case "done":
        this.asks.get(message.ask)?.resolve();
        this.asks.delete(message.ask);
        if (this.asks.size === 0 && this.stopping === null) this.worker.unref();
        break;
      case "stopped":
        this.stopping?.resolve();
        break;
    }
  }

  private wakeSoon(): void {
    if (this.working || this.stopping !== null) return;
    this.working = true;
    setTimeout(() => this.send({ kind: "more" }), this.gatherMs).unref();
  }

  /** A call now and then is in the store at once. Where there are many, fewer and larger transactions cost far less. */
  private get gatherMs(): number {
    const pollMs = this.options.pollMs ?? pollMsDefault;
    return this.receiptsLastRound < busyReceipts ? pollMs : pollMs * 10;
  }

  private isBehind({ segment, position }: { readonly segment: number; readonly position: number }): boolean {
    const written = this.options.journal.written();
    if (written.position === 0) return false;
    return written.segment > segment || (written.segment === segment && written.position > position);
  }

  private setState(state: Extract<FromDrain, { kind: "state" }>): void {
    const changed = (state.trouble === null) !== (this.state.trouble === null);
    this.state = state;
    if (changed) this.options.onTrouble(state.trouble);
  }

  private onWorkerLost(worker: Worker, reason: string): void {
    if (worker !== this.worker || this.restart !== null) return;
    if (this.stopping !== null) {
      this.stopping.resolve();
      return;
    }
    void worker.terminate();
    // The next one looks by itself before it rests.
    this.working = true;
    this.setState({ ...this.state, trouble: `The thread that writes receipts into the store died: ${reason}.` });
    this.restart = setTimeout(() => {
      this.restart = null;
      this.worker = this.started();
      for (const { message } of this.asks.values()) this.worker.postMessage(message, []);
    }, restartMs);
  }
}

interface IdleRequest {
  readonly message: ToDrain;
  readonly resolve: () => void;
  readonly reject: (trouble: StorageTrouble) => void;
}

function stopped(): StorageTrouble {
  return new StorageTrouble("unavailable", "Receipts are no longer carried into the store; they wait in the journal for the next start.");
}

const pollMsDefault = 100;
/** Receipts of one round. */
const busyReceipts = 10;
const adoptMsDefault = 30_000;
const restartMs = 1_000;
/** A store that hangs must not keep the program from ending. */
const stopMsMax = 5_000;
