import { parentPort, workerData } from "node:worker_threads";
import { releaseHolds, settleHolds } from "../tables/budget-table.ts";
import type { Database } from "../database.ts";
import { beginningOf, SlotDrain, type SlotDrainOptions } from "./drain.ts";
import type { DrainThreadOptions, FromDrain, ToDrain } from "./drain-message.ts";
import { lockFile, segmentFile, segmentsIn, slotFolders } from "../journal/folder.ts";
import { acquireLock, type FileLock } from "../journal/lock.ts";
import { openDatabase } from "../open.ts";
import { sql } from "../sql.ts";

/** The slot of a process that has died, while its journal is drained. */
interface AdoptedSlot {
  readonly drain: SlotDrain;
  readonly lock: FileLock;
}

/**
 * The worker that moves receipts into the store: those of its own process as they are written, and those that dead processes in
 * the same folder left behind. It has its own connection, so that calls never wait for it.
 */
class DrainThread {
  private database: Database | null = null;
  private own: SlotDrain | null = null;
  private readonly adopted = new Map<string, AdoptedSlot>();
  private nextAdoptionMs = 0;
  private idleRequests: Extract<ToDrain, { kind: "idle" }>[] = [];
  private releases: readonly Extract<ToDrain, { kind: "release" }>[] = [];
  private stopping = false;
  private wake: (() => void) | null = null;
  /** A message arrived while the thread was not asleep. */
  private woken = false;
  private lastError: string | null = null;
  private failures = 0;
  private lastPosted = "";
  /** How many receipts had been drained when memory was last given back. */
  private shrunkAtReceipts = 0;
  private shrunkMs = 0;

  constructor(private readonly start: DrainThreadOptions) {}

  onMessage(message: ToDrain): void {
    if (message.kind === "idle") this.idleRequests.push(message);
    if (message.kind === "release") this.releases = [...this.releases, message];
    if (message.kind === "stop") this.stopping = true;
    this.woken = true;
    this.wake?.();
  }

  async run(): Promise<void> {
    while (!this.stopping) {
      this.woken = false;
      const busy = await this.step();
      this.postState();
      this.answerIdleRequests();
      // Messages are only delivered between turns of the event loop.
      if (busy) await new Promise((resolve) => void setImmediate(resolve));
      else if (this.failures > 0) await this.sleep(Math.min(backoffMaxMs, backoffMinMs * 2 ** (this.failures - 1)));
      // Another process drains the journal of one that has ended: perhaps the one that took its place.
      else if (this.releases.length > 0) await this.sleep(releaseLookMs);
      else await this.sleepUntilMore();
    }
    for (const [slot] of this.adopted) this.releaseSlot(slot);
    this.own?.close();
    await this.database?.close().catch(() => undefined);
    post({ kind: "stopped" });
  }

  private async step(): Promise<boolean> {
    try {
      const options = await this.options();
      this.own ??= new SlotDrain(options, this.start.slotFolder, this.start.firstSegment);
      let busy = await this.own.step();
      this.adopt(options);
      for (const [slot, { drain }] of this.adopted) {
        if (await drain.step()) busy = true;
        else this.releaseSlot(slot);
      }
      await this.releaseEnded(options.database);
      this.failures = 0;
      this.lastError = null;
      return busy;
    } catch (error) {
      this.failures += 1;
      this.lastError = error instanceof Error ? error.message : String(error);
      return false;
    }
  }

  private async options(): Promise<SlotDrainOptions> {
    this.database ??= await openDatabase({ ...this.start.database, bulkWrites: true });
    return {
      database: this.database,
      settle: settleHolds,
      release: releaseHolds,
      report: (message) => post({ kind: "report", message }),
      keptShare: this.start.keptShare,
    };
  }

  private adopt(options: SlotDrainOptions): void {
    if (performance.now() < this.nextAdoptionMs && this.releases.length === 0) return;
    this.nextAdoptionMs = performance.now() + this.start.adoptMs;
    for (const slot of slotFolders(this.start.folder)) {
      if (slot === this.start.slotFolder || this.adopted.has(slot) || segmentsIn(slot).length === 0) continue;
      const lock = acquireLock(lockFile(slot));
      if (lock !== null) this.adopted.set(slot, { lock, drain: new SlotDrain(options, slot, null) });
    }
  }

  /** What a process had spent counts by its receipts, so that its holds are released after them. It may have died before it wrote any. */
  private async releaseEnded(database: Database): Promise<void> {
    for (const release of this.releases) {
      if (hasJournal(this.start.folder, release.holder)) continue;
      await releaseHolds(database, release.holder);
      this.releases = this.releases.filter((other) => other !== release);
      post({ kind: "done", id: release.id });
    }
  }

  private releaseSlot(slot: string): void {
    const adopted = this.adopted.get(slot);
    this.adopted.delete(slot);
    adopted?.drain.close();
    adopted?.lock.release();
  }

  private answerIdleRequests(): void {
    const { own } = this;
    if (own === null || this.idleRequests.length === 0) return;
    this.idleRequests = this.idleRequests.filter(({ id, segment, position }) => {
      if (!own.hasDone(segment, position)) return true;
      post({ kind: "done", id });
      return false;
    });
  }

  private postState(): void {
    const state: FromDrain = {
      kind: "state",
      error: this.lastError,
      behindBytes: this.own?.behindBytes ?? 0,
      receipts: this.own?.receipts ?? 0,
    };
    const text = JSON.stringify(state);
    if (text === this.lastPosted) return;
    this.lastPosted = text;
    post(state);
  }

  /** Sleeps until the main thread reports new records, because polling would use CPU in an idle process. */
  private async sleepUntilMore(): Promise<void> {
    if (this.own !== null) post({ kind: "resting", ...this.own.position });
    await this.sleep(Math.min(sleepMsMax, this.start.adoptMs));
    if (!this.woken || performance.now() - this.shrunkMs >= shrinkEveryMs) await this.shrinkMemory();
  }

  /**
   * After much work, gives SQLite's page cache back: in the next idle moment, and once a minute while calls never stop. It would
   * otherwise grow with the store, up to its bound, for pages of old receipts that nobody reads again.
   */
  private async shrinkMemory(): Promise<void> {
    const receipts = this.own?.receipts ?? 0;
    if (receipts - this.shrunkAtReceipts < shrinkAfterReceipts || this.database?.engine !== "sqlite") return;
    this.shrunkAtReceipts = receipts;
    this.shrunkMs = performance.now();
    // If this fails the memory stays in use, and the next step reports why the store does not work.
    await this.database.run(sql`pragma shrink_memory`).catch(() => undefined);
  }

  private async sleep(ms: number): Promise<void> {
    if (this.woken) return;
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

/** Whether a segment that this process wrote has not been stored as a whole. */
function hasJournal(folder: string, holder: string): boolean {
  return slotFolders(folder).some((slot) => segmentsIn(slot).some((segment) => holderOf(segmentFile(slot, segment)) === holder));
}

function holderOf(file: string): string | null {
  try {
    return beginningOf(file).head?.holder ?? null;
  } catch (error) {
    // It has just been stored.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

const releaseLookMs = 25;
const shrinkAfterReceipts = 5_000;
const shrinkEveryMs = 60_000;
const sleepMsMax = 5_000;
const backoffMinMs = 100;
const backoffMaxMs = 5_000;

const thread = new DrainThread(workerData as DrainThreadOptions);
parentPort?.on("message", (message: ToDrain) => thread.onMessage(message));
void thread.run();
