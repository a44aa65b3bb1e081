import { Worker } from "node:worker_threads";
import { StorageError } from "../../gateway/storage.ts";
import type { DrainThreadOptions, FromDrain, ToDrain } from "./drain-message.ts";
import { segmentsIn, slotFolders } from "../journal/folder.ts";
import type { Journal } from "../journal/journal.ts";
import type { OpenOptions } from "../open.ts";
import { ReceiptAges } from "./receipt-ages.ts";

export interface DrainOptions {
  readonly journal: Journal;
  readonly database: OpenOptions;
  /** Called once when receipts cannot be written to the store, and with null when they can again. */
  readonly onError: (message: string | null) => void;
  /** Called with a message about each damaged record of a journal. */
  readonly onReport: (message: string) => void;
  /** How long receipts are collected before they are written in one transaction. Ten times as long under load. */
  readonly pollMs?: number;
  /** How often to look for journals of processes that have died. */
  readonly adoptMs?: number;
  /** The share of plain successes whose receipts are stored. */
  readonly keptShare?: number;
}

export interface Drain {
  /** Whether its worker was started. */
  readonly running: boolean;
  lag(): DrainLag;
  /** Resolves when all that was written so far to this slot, also by earlier processes, is in the store. Waits for the store if necessary. Rejects on `stop`. */
  idle(): Promise<void>;
  /**
   * Stores the receipts of a process that has ended, and releases the money that it held: at once instead of within half a minute, or when it
   * expires. Resolves when that is done, also if another process did it. Rejects on `stop`.
   */
  release(holder: string): Promise<void>;
  /** Stops between two batches. What is not drained yet is drained after the next start. */
  stop(): Promise<void>;
}

export interface DrainLag {
  readonly bytes: number;
  readonly receipts: number;
  /** How long the oldest of these receipts has waited. */
  readonly oldestMs: number;
  /** Receipts wait because the store is unavailable. */
  readonly degraded: boolean;
}

/**
 * Moves receipts from the journal into the store, in a worker that is restarted if it dies. It is started when there is something to
 * move: receipts of earlier processes, or the first one of this process. A thread costs 5 MB and as much time as loading its modules.
 */
export function startDrain(options: DrainOptions): Drain {
  return new DrainWorker(options);
}

class DrainWorker implements Drain {
  /** Null until there is something to drain. */
  private worker: Worker | null = null;
  private state: Extract<FromDrain, { kind: "state" }> = { kind: "state", error: null, behindBytes: 0, receipts: 0 };
  private readonly requests = new Map<number, DrainRequest>();
  private lastRequest = 0;
  private stopping: PromiseWithResolvers<void> | null = null;
  private ended: Promise<void> = Promise.resolve();
  private restart: ReturnType<typeof setTimeout> | null = null;
  /** The worker is busy, or was just woken. It reports `resting` when it has nothing left to do. */
  private working = false;
  /** Looks for journals of processes that have died, until there is a worker to do that. */
  private adoption: ReturnType<typeof setInterval> | null = null;
  /** How many receipts were in the store at the last `resting`, and how many were drained in the round before it. */
  private receiptsAtRest = 0;
  private receiptsLastRound = 0;
  private readonly ages = new ReceiptAges();

  constructor(private readonly options: DrainOptions) {
    options.journal.watch(() => {
      this.ages.wrote(options.journal.written().receipts, performance.now());
      this.scheduleWake();
    });
    this.adoption = setInterval(() => this.adopt(), options.adoptMs ?? adoptMsDefault);
    this.adoption.unref();
    this.adopt();
  }

  get running(): boolean {
    return this.worker !== null;
  }

  lag(): DrainLag {
    const { behindBytes, receipts, error } = this.state;
    return {
      bytes: behindBytes,
      receipts: Math.max(0, this.options.journal.written().receipts - receipts),
      oldestMs: this.ages.oldestMs(performance.now()),
      degraded: error !== null,
    };
  }

  async idle(): Promise<void> {
    await this.options.journal.flush();
    const { segment, position } = this.options.journal.written();
    if (this.stopping !== null) throw stopped();
    if (this.worker !== null) await this.ask((id) => ({ kind: "idle", id, segment, position }));
  }

  async release(holder: string): Promise<void> {
    if (this.stopping !== null) throw stopped();
    if (this.worker === null) this.start();
    await this.ask((id) => ({ kind: "release", id, holder }));
  }

  async stop(): Promise<void> {
    if (this.stopping === null) {
      this.stopping = Promise.withResolvers<void>();
      this.endAdoption();
      if (this.restart !== null) {
        clearTimeout(this.restart);
        this.stopping.resolve();
      }
      if (this.worker === null) this.stopping.resolve();
      this.worker?.ref();
      this.send({ kind: "stop" });
      const timer = setTimeout(() => this.stopping?.resolve(), stopMsMax);
      this.ended = this.stopping.promise.then(async () => {
        clearTimeout(timer);
        for (const { reject } of this.requests.values()) reject(stopped());
        this.requests.clear();
        await this.worker?.terminate();
      });
    }
    await this.ended;
  }

  private ask(make: (id: number) => Extract<ToDrain, { id: number }>): Promise<void> {
    const message = make((this.lastRequest += 1));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.requests.set(message.id, { message, resolve, reject });
    this.worker?.ref();
    this.send(message);
    return promise;
  }

  private adopt(): void {
    if (hasLeftovers(this.options.journal)) this.start();
  }

  private endAdoption(): void {
    if (this.adoption !== null) clearInterval(this.adoption);
    this.adoption = null;
  }

  private start(): void {
    this.endAdoption();
    // A new worker drains before it rests.
    this.working = true;
    this.worker = this.started();
  }

  private started(): Worker {
    const { journal, database, adoptMs = adoptMsDefault, keptShare = 1 } = this.options;
    const workerData: DrainThreadOptions = {
      folder: journal.folder,
      slotFolder: journal.slotFolder,
      firstSegment: journal.firstSegment,
      database,
      adoptMs,
      keptShare,
    };
    const worker = new Worker(new URL("./drain-thread.ts", import.meta.url), { workerData });
    worker.on("message", (message: FromDrain) => this.onMessage(message));
    worker.on("error", (error) => this.onWorkerLost(worker, error instanceof Error ? error.message : String(error)));
    worker.on("exit", () => this.onWorkerLost(worker, "it ended"));
    // The process may exit while receipts are drained: they are safe in the journal.
    if (this.requests.size === 0) worker.unref();
    return worker;
  }

  private send(message: ToDrain): void {
    if (this.restart === null) this.worker?.postMessage(message, []);
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
        if (this.isBehind(message)) this.scheduleWake();
        break;
      case "report":
        this.options.onReport(message.message);
        break;
      case "done":
        this.requests.get(message.id)?.resolve();
        this.requests.delete(message.id);
        if (this.requests.size === 0 && this.stopping === null) this.worker?.unref();
        break;
      case "stopped":
        this.stopping?.resolve();
        break;
    }
  }

  private scheduleWake(): void {
    if (this.working || this.stopping !== null) return;
    if (this.worker === null) {
      // What is written before the first receipt is only of interest to a later process.
      if (this.options.journal.written().receipts > 0) this.start();
      return;
    }
    this.working = true;
    setTimeout(this.wake, this.gatherMs).unref();
  }

  private readonly wake = (): void => this.send({ kind: "more" });

  /** A single receipt is written at once. Under load, fewer and larger transactions cost far less. */
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
    const changed = (state.error === null) !== (this.state.error === null);
    this.state = state;
    this.ages.drainedTo(state.receipts);
    if (changed) this.options.onError(state.error);
  }

  private onWorkerLost(worker: Worker, reason: string): void {
    if (worker !== this.worker || this.restart !== null) return;
    if (this.stopping !== null) {
      this.stopping.resolve();
      return;
    }
    void worker.terminate();
    this.working = true;
    this.setState({ ...this.state, error: `The thread that writes receipts into the store died: ${reason}.` });
    this.restart = setTimeout(() => {
      this.restart = null;
      this.start();
      for (const { message } of this.requests.values()) this.send(message);
    }, restartMs);
  }
}

interface DrainRequest {
  readonly message: ToDrain;
  readonly resolve: () => void;
  readonly reject: (error: StorageError) => void;
}

/** Whether earlier processes left something in their journals, or others write to theirs. */
function hasLeftovers({ folder, slotFolder, firstSegment }: Journal): boolean {
  try {
    return slotFolders(folder).some((slot) => segmentsIn(slot).some((segment) => slot !== slotFolder || segment < firstSegment));
  } catch {
    // The worker meets the same failure, and reports it.
    return true;
  }
}

function stopped(): StorageError {
  return new StorageError("unavailable", "Receipts are no longer written to the store. They stay in the journal until the next start.");
}

const pollMsDefault = 100;
/** From this number of receipts in a round on, the drain counts as under load. */
const busyReceipts = 10;
const adoptMsDefault = 30_000;
const restartMs = 1_000;
/** A store that hangs must not keep the process from exiting. */
const stopMsMax = 5_000;
