import { open } from "node:fs/promises";
import { WaitingBytes } from "../../files/waiting-bytes.ts";
import { StorageTrouble } from "../../gateway/storage.ts";
import type { ReceiptBook } from "../../gateway/settlement/record.ts";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import { lockFile, makeFolder, segmentFile, segmentsIn, slotFolder } from "./folder.ts";
import { putFrame, roomFor } from "./frame.ts";
import { takeLock, type Lock } from "./lock.ts";
import { Segment } from "./segment.ts";
import { headLine, openingLine, receiptLine } from "../receipts/receipt-line.ts";

export interface JournalOptions {
  /** Shared by all processes of a data folder; made where it is missing. */
  readonly folder: string;
  /** Under which name this process holds money of budgets. */
  readonly holder: string;
  /** Is told once when the disk refuses records, again when it refuses for another reason, and with null when all is well. */
  readonly onTrouble: (trouble: JournalTrouble | null) => void;
  /** Every record waits for the disk itself, not only for the operating system: not even a loss of power takes it back. */
  readonly sync?: boolean;
  readonly segmentBytes?: number;
  /** How much may wait in memory while the disk refuses. */
  readonly memoryBytesMax?: number;
  /** How much may wait on the disk for the store. */
  readonly diskBytesMax?: number;
  /** How long an answer waits for a disk that refuses. */
  readonly patienceMs?: number;
  readonly retryMs?: number;
}

export interface JournalTrouble {
  readonly message: string;
  /** Records that found no room in memory either, since the process began. */
  readonly lost: number;
}

export interface Journal extends ReceiptBook {
  readonly folder: string;
  readonly slot: number;
  readonly slotFolder: string;
  /** Segments before it are of processes that have died. */
  readonly firstSegment: number;
  /** How far the disk has taken records, and how many receipts this process has kept. */
  written(): JournalMark;
  /** The listener is told whenever the disk has taken records. */
  watch(listener: () => void): void;
  /** Resolves when nothing waits in memory, or after the patience with a disk that refuses. */
  flush(): Promise<void>;
  /** Writes what waits and gives the slot free. */
  stop(): Promise<void>;
}

export interface JournalMark {
  readonly segment: number;
  readonly position: number;
  readonly receipts: number;
}

/** Takes the first slot that no living process has. Throws a `StorageTrouble` where the folder cannot be used. */
export function openJournal(options: JournalOptions): Journal {
  try {
    const { slot, lock } = takeSlot(options.folder);
    try {
      return new FileJournal(options, slot, lock);
    } catch (error) {
      lock.release();
      throw error;
    }
  } catch (error) {
    throw new StorageTrouble(
      isFull(error) ? "full" : "unavailable",
      `The journal of receipts in ${options.folder} cannot be written: ${saidBy(error)}. ` +
        "Check that the folder belongs to the user that runs the gateway and that its disk has room.",
    );
  }
}

function takeSlot(folder: string): { readonly slot: number; readonly lock: Lock } {
  for (let slot = 1; slot <= slotsMax; slot += 1) {
    const path = slotFolder(folder, slot);
    makeFolder(path);
    const lock = takeLock(lockFile(path));
    if (lock !== null) return { slot, lock };
  }
  throw new Error(`${slotsMax} processes use it already`);
}

class FileJournal implements Journal {
  readonly folder: string;
  readonly slotFolder: string;
  readonly firstSegment: number;

  private readonly options: Required<JournalOptions>;
  private readonly life = crypto.randomUUID();
  private segment: Segment;
  private nextSegment: boolean;

  /** Frames that the disk has not taken yet. */
  private readonly waiting = new WaitingBytes(gatherBytes, gatherBytesKept);
  /** A part of them is written, so that the rest belongs into the same segment. */
  private torn = false;
  /** Who waits for them. */
  private turn: Turn | null = null;
  private scheduled = false;

  /** The calls that are under way, as their lines: every segment begins with them, so that older ones can go. */
  private readonly underWay = new Map<string, string>();
  /** Calls that were just let in, and are written down if they last. */
  private readonly soon = new Map<string, ReceiptOpening>();
  private soonTimer: ReturnType<typeof setTimeout> | null = null;
  /** Whose receipts are among the frames that wait. */
  private over: string[] = [];
  private mark: JournalMark;
  private watcher: (() => void) | null = null;

  private writeTrouble: string | null = null;
  private syncTrouble: string | null = null;
  private diskTrouble: string | null = null;
  private memoryFull = false;
  private lost = 0;
  private toldMessage: string | null = null;
  private troubleSinceMs = 0;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private patience: ReturnType<typeof setTimeout> | null = null;

  private syncTimer: ReturnType<typeof setTimeout> | null = null;
  private syncRunning = false;
  /** Written, and waiting for the disk itself. */
  private unsynced: Turn[] = [];
  private dirty = false;
  /** The segment before this one is on its way to the disk. */
  private leaving: Promise<unknown> = done;

  private stopped: Promise<void> | null = null;
  private ended = false;

  constructor(
    options: JournalOptions,
    readonly slot: number,
    private readonly lock: Lock,
  ) {
    this.options = { ...defaults, ...options };
    this.folder = options.folder;
    this.slotFolder = slotFolder(options.folder, slot);
    this.firstSegment = (segmentsIn(this.slotFolder).at(-1) ?? 0) + 1;
    this.segment = new Segment(this.firstSegment, segmentFile(this.slotFolder, this.firstSegment));
    this.nextSegment = false;
    this.mark = { segment: this.firstSegment, position: 0, receipts: 0 };
    this.leaving = syncFolder(this.slotFolder);
    this.putHead();
    this.measureDisk();
  }

  get full(): boolean {
    return this.writeTrouble !== null || this.syncTrouble !== null || this.diskTrouble !== null;
  }

  open(opening: ReceiptOpening): Promise<void> {
    const line = openingLine(opening);
    if (this.keeps(line)) this.underWay.set(opening.id, line);
    return this.waited();
  }

  openSoon(opening: ReceiptOpening): void {
    this.soon.set(opening.id, opening);
    this.soonTimer ??= setTimeout(this.openThose, soonMs);
  }

  /** Most calls take longer than this, and are worth a line; a quick one has its receipt by now. */
  private readonly openThose = (): void => {
    this.soonTimer = null;
    for (const opening of this.soon.values()) {
      const line = openingLine(opening);
      if (this.keeps(line)) this.underWay.set(opening.id, line);
    }
    this.soon.clear();
    if (!this.ended) void this.waited();
  };

  close(receipt: Receipt): Promise<void> {
    this.soon.delete(receipt.id);
    // A receipt that finds no room leaves its call under way, and so it is not forgotten altogether.
    if (this.keeps(receiptLine(receipt))) this.over.push(receipt.id);
    return this.waited();
  }

  written(): JournalMark {
    return this.mark;
  }

  watch(listener: () => void): void {
    this.watcher = listener;
  }

  flush(): Promise<void> {
    if (this.waiting.length === 0 && this.unsynced.length === 0) return done;
    return this.waited();
  }

  stop(): Promise<void> {
    this.stopped ??= this.end();
    return this.stopped;
  }

  private async end(): Promise<void> {
    await this.flush();
    // A disk that refused may have room by now.
    if (this.waiting.length > 0) this.write();
    this.ended = true;
    for (const timer of [this.retry, this.patience, this.syncTimer, this.soonTimer]) if (timer !== null) clearTimeout(timer);
    await this.leaving;
    await this.segment.sync();
    this.segment.close();
    this.lock.release();
  }

  private keeps(line: string): boolean {
    if (this.ended) return false;
    if (this.waiting.length > this.options.memoryBytesMax) {
      this.memoryFull = true;
      this.lost += 1;
      this.tell();
      return false;
    }
    this.put(line);
    return true;
  }

  private waited(): Promise<void> {
    if (this.ended) return Promise.reject(new StorageTrouble("unavailable", "The journal of receipts is closed."));
    if (this.writeTrouble !== null) {
      // Everybody who came in the first moments of trouble waits for its end, within reason; later ones do not.
      if (performance.now() - this.troubleSinceMs >= this.options.patienceMs) return done;
    } else if (!this.scheduled) {
      this.scheduled = true;
      setImmediate(this.write);
    }
    this.turn ??= Promise.withResolvers<void>();
    return this.turn.promise;
  }

  /** Everything that came in during one turn of the event loop goes out in one piece. */
  private readonly write = (): void => {
    this.scheduled = false;
    const { waiting } = this;
    try {
      if (this.nextSegment && !this.torn) this.startSegment();
      while (waiting.length > 0) {
        const wanted = Math.min(waiting.length, pieceBytesMax);
        const wrote = this.segment.write(waiting.bytes, waiting.from, waiting.from + wanted);
        if (wrote > 0) this.dirty = true;
        waiting.from += wrote;
        this.torn = waiting.length > 0;
        if (wrote === 0) throw new Error("the disk takes no more");
        if (wrote === wanted && waiting.length > 0) {
          // A long wait in memory goes out in pieces, so that calls go on meanwhile.
          this.scheduled = true;
          setImmediate(this.write);
          return;
        }
      }
    } catch (error) {
      this.refused(error);
      return;
    }
    this.taken();
  };

  private taken(): void {
    this.waiting.clear();
    for (const id of this.over) this.underWay.delete(id);
    this.mark = { segment: this.segment.number, position: this.segment.bytes, receipts: this.mark.receipts + this.over.length };
    this.over = [];
    this.watcher?.();
    const { turn } = this;
    this.turn = null;
    if (this.options.sync && turn !== null) this.unsynced.push(turn);
    else turn?.resolve();
    if (this.writeTrouble !== null) {
      this.writeTrouble = null;
      this.memoryFull = false;
      if (this.patience !== null) clearTimeout(this.patience);
      this.tell();
    }
    this.syncSoon();
    if (this.segment.bytes >= this.options.segmentBytes) this.nextSegment = true;
  }

  /** What waits is whole frames now. */
  private startSegment(): void {
    makeFolder(this.slotFolder);
    const number = Math.max(this.segment.number, segmentsIn(this.slotFolder).at(-1) ?? 0) + 1;
    const begun = new Segment(number, segmentFile(this.slotFolder, number));
    const old = this.segment;
    this.segment = begun;
    this.nextSegment = false;
    this.leaving = Promise.all([this.leaving, this.synced(old).then(() => old.close()), syncFolder(this.slotFolder)]);

    const { waiting } = this;
    const held = Buffer.from(waiting.bytes.subarray(waiting.from, waiting.to));
    waiting.clear();
    this.putHead();
    for (const line of this.underWay.values()) this.put(line);
    waiting.makeRoom(held.length);
    waiting.to += held.copy(waiting.bytes, waiting.to);
    this.measureDisk();
  }

  private putHead(): void {
    const { life, mark, underWay } = this;
    const segment = crypto.randomUUID();
    this.put(headLine({ segment, life, holder: this.options.holder, receipts: mark.receipts, underWay: underWay.size }));
  }

  private put(line: string): void {
    const { waiting } = this;
    waiting.makeRoom(roomFor(line));
    waiting.to = putFrame(waiting.bytes, waiting.to, line);
  }

  private refused(error: unknown): void {
    if (this.writeTrouble === null) {
      this.troubleSinceMs = performance.now();
      this.patience = setTimeout(() => this.letGo(), this.options.patienceMs);
    }
    this.writeTrouble = saidBy(error);
    this.tell();
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = setTimeout(this.write, this.options.retryMs);
    this.retry.unref();
  }

  /** Answers do not hang for ever on a disk that refuses: their records wait in memory instead. */
  private letGo(): void {
    this.turn?.resolve();
    this.turn = null;
    for (const turn of this.unsynced.splice(0)) turn.resolve();
  }

  /** Without `sync`, at most this much time's records can be lost with the power. */
  private syncSoon(): void {
    if ((!this.dirty && this.unsynced.length === 0) || this.syncRunning || this.ended) return;
    if (this.options.sync) {
      void this.syncNow();
    } else {
      this.syncTimer ??= setTimeout(() => {
        this.syncTimer = null;
        void this.syncNow();
      }, syncEveryMs);
    }
  }

  private async syncNow(): Promise<void> {
    if (this.syncRunning || this.ended) return;
    this.syncRunning = true;
    this.dirty = false;
    const { segment, leaving } = this;
    const group = this.unsynced.splice(0);
    const patience = group.length === 0 ? null : setTimeout(() => resolveAll(group), this.options.patienceMs);
    const failed = await this.synced(segment);
    await leaving;
    this.syncRunning = false;
    if (patience !== null) clearTimeout(patience);
    resolveAll(group);
    if (this.ended) return;
    if (failed) {
      this.dirty = true;
      this.syncTimer ??= setTimeout(() => {
        this.syncTimer = null;
        void this.syncNow();
      }, this.options.retryMs);
      return;
    }
    // Somebody cleared the folder away: what comes now goes where it can be found.
    if (segment === this.segment && segment.isGone) this.nextSegment = true;
    this.syncSoon();
  }

  private async synced(segment: Segment): Promise<boolean> {
    const error = await segment.sync();
    const trouble = error === null ? null : saidBy(error);
    if (trouble !== this.syncTrouble) {
      this.syncTrouble = trouble;
      this.tell();
    }
    return error !== null;
  }

  /** A store that is away for long must not fill the disk for everybody else. */
  private measureDisk(): void {
    const { diskBytesMax, segmentBytes, retryMs } = this.options;
    const bytes = segmentsIn(this.slotFolder).length * segmentBytes;
    const trouble = bytes > diskBytesMax ? `more than ${diskBytesMax} bytes of receipts wait for the store` : null;
    if (trouble !== null && !this.ended) setTimeout(() => this.measureDisk(), retryMs).unref();
    if (trouble === this.diskTrouble) return;
    this.diskTrouble = trouble;
    this.tell();
  }

  private tell(): void {
    const message = this.writeTrouble ?? this.syncTrouble ?? this.diskTrouble;
    // The first lost record is worth another word, the others are not.
    const told = message === null ? null : this.memoryFull ? `${message}, and memory is full` : message;
    if (told === this.toldMessage) return;
    this.toldMessage = told;
    this.options.onTrouble(told === null ? null : { message: told, lost: this.lost });
  }
}

type Turn = PromiseWithResolvers<void>;

function resolveAll(turns: readonly Turn[]): void {
  for (const turn of turns) turn.resolve();
}

/** A file whose name is not on the disk is lost with the power, whatever is in it. Where a folder cannot be synced, it need not be. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const opened = await open(folder, "r");
    try {
      await opened.sync();
    } finally {
      await opened.close();
    }
  } catch {
    // Trouble with the disk shows in the file itself.
  }
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT" || code === "EROFS";
}

function saidBy(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** How long a call that holds no money may be under way without a line about it. */
const soonMs = 20;
const done = Promise.resolve();
const defaults = {
  sync: false,
  segmentBytes: 16 << 20,
  memoryBytesMax: 64 << 20,
  diskBytesMax: 8 * 2 ** 30,
  patienceMs: 2_000,
  retryMs: 1_000,
};
const syncEveryMs = 20;
const slotsMax = 1_000;
const gatherBytes = 256 << 10;
const gatherBytesKept = 1 << 20;
const pieceBytesMax = 4 << 20;
