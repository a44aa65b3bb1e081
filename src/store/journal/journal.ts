import { open } from "node:fs/promises";
import { WaitingBytes } from "../../files/waiting-bytes.ts";
import { StorageTrouble } from "../../gateway/storage.ts";
import type { ReceiptBook } from "../../gateway/settlement/record.ts";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import { lockFile, makeFolder, segmentFile, segmentsIn, slotFolder } from "./folder.ts";
import { putFrame, roomFor } from "./frame.ts";
import { acquireLock, type FileLock } from "./lock.ts";
import { Segment } from "./segment.ts";
import { headLine, openingLine, receiptLine } from "../receipts/receipt-line.ts";

export interface JournalOptions {
  /** Shared by all processes of a data folder; made where it is missing. */
  readonly folder: string;
  /** Under which name this process holds money of budgets. */
  readonly holder: string;
  /** Is told once when the disk refuses records, again when it refuses for another reason, and with null when all is well. */
  readonly onTrouble: (trouble: JournalError | null) => void;
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

export interface JournalError {
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
  written(): JournalPosition;
  /** The listener is told whenever the disk has taken records. */
  watch(listener: () => void): void;
  /** Resolves when nothing waits in memory, or after the patience with a disk that refuses. */
  flush(): Promise<void>;
  /** Writes what waits and gives the slot free. */
  stop(): Promise<void>;
}

export interface JournalPosition {
  readonly segment: number;
  readonly position: number;
  readonly receipts: number;
}

/** Takes the first slot that no living process has. Throws a `StorageTrouble` where the folder cannot be used. */
export function openJournal(options: JournalOptions): Journal {
  try {
    const { slot, lock } = acquireSlot(options.folder);
    try {
      return new FileJournal(options, slot, lock);
    } catch (error) {
      lock.release();
      throw error;
    }
  } catch (error) {
    throw new StorageTrouble(
      isFull(error) ? "full" : "unavailable",
      `The journal of receipts in ${options.folder} cannot be written: ${messageOf(error)}. ` +
        "Check that the folder belongs to the user that runs the gateway and that its disk has room.",
    );
  }
}

function acquireSlot(folder: string): { readonly slot: number; readonly lock: FileLock } {
  for (let slot = 1; slot <= slotsMax; slot += 1) {
    const path = slotFolder(folder, slot);
    makeFolder(path);
    const lock = acquireLock(lockFile(path));
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
  private readonly waiting = new WaitingBytes(bufferBytes, bufferBytesKept);
  /** A part of them is written, so that the rest belongs into the same segment. */
  private partlyWritten = false;
  /** Who waits for them. */
  private group: WriteGroup | null = null;
  private scheduled = false;

  /** The calls that are under way, as their lines: every segment begins with them, so that older ones can go. */
  private readonly inFlight = new Map<string, string>();
  /** Calls that were just let in, and are written down if they last. */
  private readonly newOpenings = new Map<string, ReceiptOpening>();
  private openingsTimer: ReturnType<typeof setTimeout> | null = null;
  /** Whose receipts are among the frames that wait. */
  private closedIds: string[] = [];
  private position: JournalPosition;
  private watcher: (() => void) | null = null;

  private writeError: string | null = null;
  private syncError: string | null = null;
  private diskError: string | null = null;
  private memoryFull = false;
  private lost = 0;
  private reportedMessage: string | null = null;
  private errorSinceMs = 0;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private patience: ReturnType<typeof setTimeout> | null = null;

  private syncTimer: ReturnType<typeof setTimeout> | null = null;
  private syncRunning = false;
  /** Written, and waiting for the disk itself. */
  private unsynced: WriteGroup[] = [];
  private dirty = false;
  /** The segment before this one is on its way to the disk. */
  private previousSync: Promise<unknown> = done;

  private stopped: Promise<void> | null = null;
  private ended = false;

  constructor(
    options: JournalOptions,
    readonly slot: number,
    private readonly lock: FileLock,
  ) {
    this.options = { ...defaults, ...options };
    this.folder = options.folder;
    this.slotFolder = slotFolder(options.folder, slot);
    this.firstSegment = (segmentsIn(this.slotFolder).at(-1) ?? 0) + 1;
    this.segment = new Segment(this.firstSegment, segmentFile(this.slotFolder, this.firstSegment));
    this.nextSegment = false;
    this.position = { segment: this.firstSegment, position: 0, receipts: 0 };
    this.previousSync = syncFolder(this.slotFolder);
    this.putHead();
    this.checkDiskUse();
  }

  get full(): boolean {
    return this.writeError !== null || this.syncError !== null || this.diskError !== null;
  }

  open(opening: ReceiptOpening): Promise<void> {
    const line = openingLine(opening);
    if (this.enqueue(line)) this.inFlight.set(opening.id, line);
    return this.durable();
  }

  openSoon(opening: ReceiptOpening): void {
    this.newOpenings.set(opening.id, opening);
    this.openingsTimer ??= setTimeout(this.writeOpenings, openingDelayMs);
  }

  /** Most calls take longer than this, and are worth a line; a quick one has its receipt by now. */
  private readonly writeOpenings = (): void => {
    this.openingsTimer = null;
    for (const opening of this.newOpenings.values()) {
      const line = openingLine(opening);
      if (this.enqueue(line)) this.inFlight.set(opening.id, line);
    }
    this.newOpenings.clear();
    if (!this.ended) void this.durable();
  };

  close(receipt: Receipt): Promise<void> {
    this.newOpenings.delete(receipt.id);
    // A receipt that finds no room leaves its call under way, and so it is not forgotten altogether.
    if (this.enqueue(receiptLine(receipt))) this.closedIds.push(receipt.id);
    return this.durable();
  }

  written(): JournalPosition {
    return this.position;
  }

  watch(listener: () => void): void {
    this.watcher = listener;
  }

  flush(): Promise<void> {
    if (this.waiting.length === 0 && this.unsynced.length === 0) return done;
    return this.durable();
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
    for (const timer of [this.retry, this.patience, this.syncTimer, this.openingsTimer]) if (timer !== null) clearTimeout(timer);
    await this.previousSync;
    await this.segment.sync();
    this.segment.close();
    this.lock.release();
  }

  private enqueue(line: string): boolean {
    if (this.ended) return false;
    if (this.waiting.length > this.options.memoryBytesMax) {
      this.memoryFull = true;
      this.lost += 1;
      this.reportError();
      return false;
    }
    this.put(line);
    return true;
  }

  private durable(): Promise<void> {
    if (this.ended) return Promise.reject(new StorageTrouble("unavailable", "The journal of receipts is closed."));
    if (this.writeError !== null) {
      // Everybody who came in the first moments of trouble waits for its end, within reason; later ones do not.
      if (performance.now() - this.errorSinceMs >= this.options.patienceMs) return done;
    } else if (!this.scheduled) {
      this.scheduled = true;
      setImmediate(this.write);
    }
    this.group ??= Promise.withResolvers<void>();
    return this.group.promise;
  }

  /** Everything that came in during one turn of the event loop goes out in one piece. */
  private readonly write = (): void => {
    this.scheduled = false;
    const { waiting } = this;
    try {
      if (this.nextSegment && !this.partlyWritten) this.startSegment();
      while (waiting.length > 0) {
        const wanted = Math.min(waiting.length, pieceBytesMax);
        const wrote = this.segment.write(waiting.bytes, waiting.from, waiting.from + wanted);
        if (wrote > 0) this.dirty = true;
        waiting.from += wrote;
        this.partlyWritten = waiting.length > 0;
        if (wrote === 0) throw new Error("the disk takes no more");
        if (wrote === wanted && waiting.length > 0) {
          // A long wait in memory goes out in pieces, so that calls go on meanwhile.
          this.scheduled = true;
          setImmediate(this.write);
          return;
        }
      }
    } catch (error) {
      this.onWriteError(error);
      return;
    }
    this.onWritten();
  };

  private onWritten(): void {
    this.waiting.clear();
    for (const id of this.closedIds) this.inFlight.delete(id);
    this.position = {
      segment: this.segment.number,
      position: this.segment.bytes,
      receipts: this.position.receipts + this.closedIds.length,
    };
    this.closedIds = [];
    this.watcher?.();
    const { group } = this;
    this.group = null;
    if (this.options.sync && group !== null) this.unsynced.push(group);
    else group?.resolve();
    if (this.writeError !== null) {
      this.writeError = null;
      this.memoryFull = false;
      if (this.patience !== null) clearTimeout(this.patience);
      this.reportError();
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
    this.previousSync = Promise.all([this.previousSync, this.syncSegment(old).then(() => old.close()), syncFolder(this.slotFolder)]);

    const { waiting } = this;
    const held = Buffer.from(waiting.bytes.subarray(waiting.from, waiting.to));
    waiting.clear();
    this.putHead();
    for (const line of this.inFlight.values()) this.put(line);
    waiting.makeRoom(held.length);
    waiting.to += held.copy(waiting.bytes, waiting.to);
    this.checkDiskUse();
  }

  private putHead(): void {
    const { life, position, inFlight } = this;
    const segment = crypto.randomUUID();
    this.put(headLine({ segment, life, holder: this.options.holder, receipts: position.receipts, inFlight: inFlight.size }));
  }

  private put(line: string): void {
    const { waiting } = this;
    waiting.makeRoom(roomFor(line));
    waiting.to = putFrame(waiting.bytes, waiting.to, line);
  }

  private onWriteError(error: unknown): void {
    if (this.writeError === null) {
      this.errorSinceMs = performance.now();
      this.patience = setTimeout(() => this.releaseWaiters(), this.options.patienceMs);
    }
    this.writeError = messageOf(error);
    this.reportError();
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = setTimeout(this.write, this.options.retryMs);
    this.retry.unref();
  }

  /** Answers do not hang for ever on a disk that refuses: their records wait in memory instead. */
  private releaseWaiters(): void {
    this.group?.resolve();
    this.group = null;
    for (const group of this.unsynced.splice(0)) group.resolve();
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
    const { segment, previousSync } = this;
    const group = this.unsynced.splice(0);
    const patience = group.length === 0 ? null : setTimeout(() => resolveAll(group), this.options.patienceMs);
    const failed = await this.syncSegment(segment);
    await previousSync;
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

  private async syncSegment(segment: Segment): Promise<boolean> {
    const error = await segment.sync();
    const trouble = error === null ? null : messageOf(error);
    if (trouble !== this.syncError) {
      this.syncError = trouble;
      this.reportError();
    }
    return error !== null;
  }

  /** A store that is away for long must not fill the disk for everybody else. */
  private checkDiskUse(): void {
    const { diskBytesMax, segmentBytes, retryMs } = this.options;
    const bytes = segmentsIn(this.slotFolder).length * segmentBytes;
    const trouble = bytes > diskBytesMax ? `more than ${diskBytesMax} bytes of receipts wait for the store` : null;
    if (trouble !== null && !this.ended) setTimeout(() => this.checkDiskUse(), retryMs).unref();
    if (trouble === this.diskError) return;
    this.diskError = trouble;
    this.reportError();
  }

  private reportError(): void {
    const message = this.writeError ?? this.syncError ?? this.diskError;
    // The first lost record is worth another word, the others are not.
    const reported = message === null ? null : this.memoryFull ? `${message}, and memory is full` : message;
    if (reported === this.reportedMessage) return;
    this.reportedMessage = reported;
    this.options.onTrouble(reported === null ? null : { message: reported, lost: this.lost });
  }
}

type WriteGroup = PromiseWithResolvers<void>;

function resolveAll(groups: readonly WriteGroup[]): void {
  for (const group of groups) group.resolve();
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** How long a call that holds no money may be under way without a line about it. */
const openingDelayMs = 20;
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
const bufferBytes = 256 << 10;
const bufferBytesKept = 1 << 20;
const pieceBytesMax = 4 << 20;
