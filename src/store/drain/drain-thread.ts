import { parentPort, workerData } from "node:worker_threads";
import { releaseHolds, settleHolds } from "../tables/budget-table.ts";
import type { Database } from "../database.ts";
import { SlotDrain, type DrainNeeds } from "./drain.ts";
import type { DrainStart, FromDrain, ToDrain } from "./drain-message.ts";
import { lockFile, segmentsIn, slotFolders } from "../journal/folder.ts";
import { takeLock, type Lock } from "../journal/lock.ts";
import { openDatabase } from "../open.ts";
import { sql } from "../sql.ts";

/** A slot whose process has died, for as long as it takes to empty it. */
interface Adopted {
  readonly drain: SlotDrain;
  readonly lock: Lock;
}

/**
 * The thread that carries receipts into the store: those of its own process as they come, and those that dead processes of the
 * same folder left behind. It has a connection of its own, so that nothing it waits for holds up a call.
 */
class DrainThread {
  private database: Database | null = null;
  private own: SlotDrain | null = null;
  private readonly adopted = new Map<string, Adopted>();
  private lookAgainMs = 0;
  private asks: Extract<ToDrain, { kind: "ask" }>[] = [];
  private stopping = false;
  private wake: (() => void) | null = null;
  /** Somebody wants something, and came while there was no rest to wake from. */
  private called = false;
  private trouble: string | null = null;
  private failures = 0;
  private told = "";
  /** How many receipts had been carried when it was last tidied. */
  private tidiedReceipts = 0;

  constructor(private readonly start: DrainStart) {}

  hear(message: ToDrain): void {
    if (message.kind === "ask") this.asks.push(message);
    if (message.kind === "stop") this.stopping = true;
    this.called = true;
    this.wake?.();
  }

  async run(): Promise<void> {
    while (!this.stopping) {
      this.called = false;
      const busy = await this.turn();
      this.tell();
      this.answer();
      // Messages are heard between turns of the event loop only, also while there is no end of work.
      if (busy) await new Promise((resolve) => void setImmediate(resolve));
      else if (this.failures > 0) await this.rest(Math.min(backoffMaxMs, backoffMinMs * 2 ** (this.failures - 1)));
      else await this.restUntilMore();
    }
    for (const [slot] of this.adopted) this.giveBack(slot);
    this.own?.close();
    await this.database?.close().catch(() => undefined);
    post({ kind: "stopped" });
  }

  private async turn(): Promise<boolean> {
    try {
      const needs = await this.needs();
      this.own ??= new SlotDrain(needs, this.start.slotFolder, this.start.firstSegment);
      let busy = await this.own.step();
      this.adopt(needs);
      for (const [slot, { drain }] of this.adopted) {
        if (await drain.step()) busy = true;
        else this.giveBack(slot);
      }
      this.failures = 0;
      this.trouble = null;
      return busy;
    } catch (error) {
      this.failures += 1;
      this.trouble = error instanceof Error ? error.message : String(error);
      return false;
    }
  }

  private async needs(): Promise<DrainNeeds> {
    this.database ??= await openDatabase({ ...this.start.database, writesMuch: true });
    return { database: this.database, settle: settleHolds, release: releaseHolds, report: (message) => post({ kind: "report", message }) };
  }

  private adopt(needs: DrainNeeds): void {
    if (performance.now() < this.lookAgainMs) return;
    this.lookAgainMs = performance.now() + this.start.adoptMs;
    for (const slot of slotFolders(this.start.folder)) {
      if (slot === this.start.slotFolder || this.adopted.has(slot) || segmentsIn(slot).length === 0) continue;
      const lock = takeLock(lockFile(slot));
      if (lock !== null) this.adopted.set(slot, { lock, drain: new SlotDrain(needs, slot, null) });
    }
  }

  private giveBack(slot: string): void {
    const adopted = this.adopted.get(slot);
    this.adopted.delete(slot);
    adopted?.drain.close();
    adopted?.lock.release();
  }

  private answer(): void {
    const { own } = this;
    if (own === null || this.asks.length === 0) return;
    this.asks = this.asks.filter(({ ask, segment, position }) => {
      if (!own.hasDone(segment, position)) return true;
      post({ kind: "done", ask });
      return false;
    });
  }

  private tell(): void {
    const state: FromDrain = {
      kind: "state",
      trouble: this.trouble,
      behindBytes: this.own?.behindBytes ?? 0,
      receipts: this.own?.receipts ?? 0,
    };
    const text = JSON.stringify(state);
    if (text === this.told) return;
    this.told = text;
    post(state);
  }

  /** An idle process must not use the machine, so we do not look again and again: we are told. */
  private async restUntilMore(): Promise<void> {
    if (this.own !== null) post({ kind: "resting", ...this.own.place });
    await this.rest(Math.min(restMaxMs, this.start.adoptMs));
    if (!this.called) await this.tidy();
  }

  /** After much work, and a rest in which nothing came, the pages that SQLite keeps for more of it are given back. */
  private async tidy(): Promise<void> {
    const receipts = this.own?.receipts ?? 0;
    if (receipts - this.tidiedReceipts < muchReceipts || this.database?.engine !== "sqlite") return;
    this.tidiedReceipts = receipts;
    // Where that cannot be, they stay where they are, and the next turn tells of any trouble.
    await this.database.run(sql`pragma shrink_memory`).catch(() => undefined);
  }

  private async rest(ms: number): Promise<void> {
    if (this.called) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wake = null;
  }
}

function post(message: FromDrain): void {
  parentPort?.postMessage(message, []);
}

const muchReceipts = 5_000;
const restMaxMs = 5_000;
const backoffMinMs = 100;
const backoffMaxMs = 5_000;

const thread = new DrainThread(workerData as DrainStart);
parentPort?.on("message", (message: ToDrain) => thread.hear(message));
void thread.run();
