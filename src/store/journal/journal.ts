import { open } from "node:fs/promises";
import { WaitingBytes } from "../../files/waiting-bytes.ts";
import { StorageError } from "../../gateway/storage.ts";
import type { ReceiptBook } from "../../gateway/settlement/record.ts";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import { lockFile, makeFolder, segmentFile, segmentsIn, slotFolder } from "./folder.ts";
import { putFrame, roomFor } from "./frame.ts";
import { acquireLock, type FileLock } from "./lock.ts";
import { Segment } from "./segment.ts";
import { headLine, openingLine, receiptLine } from "../receipts/receipt-line.ts";

export interface JournalOptions {
  /** The journal folder, shared by all processes of a data folder. It is created if it does not exist. */
  readonly folder: string;
  /** The name under which this process holds money of budgets. */
  readonly holder: string;
  /** Called once when writing fails, again when the reason changes, and with null when writing works again. */
  readonly onError: (error: JournalError | null) => void;
  /** fsync each record before its promise resolves, so that a power failure loses nothing. */
  readonly sync?: boolean;
  readonly segmentBytes?: number;
  /** How much may be queued in memory while the disk rejects writes. */
  readonly memoryBytesMax?: number;
  /** How much may lie on disk that is not in the store yet. */
  readonly diskBytesMax?: number;
  /** How long calls wait for a disk that rejects writes before they go on. */
  readonly flushTimeoutMs?: number;
  readonly retryMs?: number;
}

export interface JournalError {
  readonly message: string;
  /** Records dropped since the process started, because the queue in memory was full as well. */
  readonly lost: number;
}

export interface Journal extends ReceiptBook {
  readonly folder: string;
  readonly slot: number;
  readonly slotFolder: string;
  /** Older segments were written by processes that have exited. */
  readonly firstSegment: number;
  /** How far the journal has been written, and how many receipts this process has written. */
  written(): JournalPosition;
  /** Calls the listener after each write. */
  watch(listener: () => void): void;
  /** Resolves when the queue is empty, or after `flushTimeoutMs` if the disk rejects writes. */
  flush(): Promise<void>;
  /** Flushes the queue and releases the slot. */
  stop(): Promise<void>;
}

export interface JournalPosition {
  readonly segment: number;
  readonly position: number;
  readonly receipts: number;
}

/** Opens a journal in the first free slot. Throws a `StorageError` if the folder cannot be used. */
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
    throw new StorageError(
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
  private readonly runId = crypto.randomUUID();
  private segment: Segment;
  private nextSegment: boolean;

  /** Frames that have not been written yet. */
  private readonly waiting = new WaitingBytes(bufferBytes, bufferBytesKept);
  /** A frame was written in part, so that the rest must go into the same segment. */
  private partlyWritten = false;
  /** The callers that wait for these frames. */
  private group: WriteGroup | null = null;
  private scheduled = false;

  /** The lines of running calls. Each new segment begins with them, so that older segments can be deleted. */
  private readonly inFlight = new Map<string, string>();
  /** Openings that are not written yet: a call that ends within `openingDelayMs` needs no line. */
  private readonly newOpenings = new Map<string, ReceiptOpening>();
  private openingsTimer: ReturnType<typeof setTimeout> | null = null;
  /** The calls whose receipts are among the queued frames. */
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
  private flushTimer: ReturnType<typeof setTimeout> | null = null;

  private syncTimer: ReturnType<typeof setTimeout> | null = null;
  private syncRunning = false;
  /** Callers whose records were written, but not fsynced. */
  private unsynced: WriteGroup[] = [];
  private dirty = false;
  /** The fsync of the previous segment. */
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

  openDeferred(opening: ReceiptOpening): void {
    this.newOpenings.set(opening.id, opening);
    this.openingsTimer ??= setTimeout(this.writeOpenings, openingDelayMs);
  }

  /** By now a short call has its receipt and needs no opening; the others get one. */
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
    // If the queue has no room for the receipt, the call stays in flight, so that the next segment still mentions it.
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
    // The disk may have room again.
    if (this.waiting.length > 0) this.write();
    this.ended = true;
    for (const timer of [this.retry, this.flushTimer, this.syncTimer, this.openingsTimer]) if (timer !== null) clearTimeout(timer);
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
    if (this.ended) return Promise.reject(new StorageError("unavailable", "The journal of receipts is closed."));
    if (this.writeError !== null) {
      // Callers wait for a failing disk until the timeout after its first error. Later callers do not wait at all.
      if (performance.now() - this.errorSinceMs >= this.options.flushTimeoutMs) return done;
    } else if (!this.scheduled) {
      this.scheduled = true;
      setImmediate(this.write);
    }
    this.group ??= Promise.withResolvers<void>();
    return this.group.promise;
  }

  /** Writes all that was queued during one turn of the event loop with a single system call. */
  private readonly write = (): void => {
    this.scheduled = false;
    const { waiting } = this;
    try {
      if (this.nextSegment && !this.partlyWritten) this.startSegment();
      while (waiting.length > 0) {
        const count = Math.min(waiting.length, pieceBytesMax);
        const wrote = this.segment.write(waiting.bytes, waiting.from, waiting.from + count);
        if (wrote > 0) this.dirty = true;
        waiting.from += wrote;
        this.partlyWritten = waiting.length > 0;
        if (wrote === 0) throw new Error("the disk accepts no more data");
        if (wrote === count && waiting.length > 0) {
          // A long queue is written in pieces, so that the event loop is not blocked.
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
      if (this.flushTimer !== null) clearTimeout(this.flushTimer);
      this.reportError();
    }
    this.scheduleSync();
    if (this.segment.bytes >= this.options.segmentBytes) this.nextSegment = true;
  }

  /** Only called when the queue consists of complete frames. */
  private startSegment(): void {
    makeFolder(this.slotFolder);
    const number = Math.max(this.segment.number, segmentsIn(this.slotFolder).at(-1) ?? 0) + 1;
    const next = new Segment(number, segmentFile(this.slotFolder, number));
    const old = this.segment;
    this.segment = next;
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
    const { runId, position, inFlight } = this;
    const segment = crypto.randomUUID();
    this.put(headLine({ segment, runId, holder: this.options.holder, receipts: position.receipts, inFlight: inFlight.size }));
  }

  private put(line: string): void {
    const { waiting } = this;
    waiting.makeRoom(roomFor(line));
    waiting.to = putFrame(waiting.bytes, waiting.to, line);
  }

  private onWriteError(error: unknown): void {
    if (this.writeError === null) {
      this.errorSinceMs = performance.now();
      this.flushTimer = setTimeout(() => this.releaseWaiters(), this.options.flushTimeoutMs);
    }
    this.writeError = messageOf(error);
    this.reportError();
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = setTimeout(this.write, this.options.retryMs);
    this.retry.unref();
  }

  /** Calls do not wait forever for a failing disk: their records stay queued in memory. */
  private releaseWaiters(): void {
    this.group?.resolve();
    this.group = null;
    for (const group of this.unsynced.splice(0)) group.resolve();
  }

  /** Without the `sync` option, a power failure can lose the records of the last `syncEveryMs`. */
  private scheduleSync(): void {
    if ((!this.dirty && this.unsynced.length === 0) || this.syncRunning || this.ended) return;
    if (this.options.sync) {
      void this.syncNow();
    } else {
      this.syncTimer ??= setTimeout(this.onSyncTimer, syncEveryMs);
    }
  }

  private readonly onSyncTimer = (): void => {
    this.syncTimer = null;
    void this.syncNow();
  };

  private async syncNow(): Promise<void> {
    if (this.syncRunning || this.ended) return;
    this.syncRunning = true;
    this.dirty = false;
    const { segment, previousSync } = this;
    const group = this.unsynced.splice(0);
    const flushTimer = group.length === 0 ? null : setTimeout(() => resolveAll(group), this.options.flushTimeoutMs);
    const failed = await this.syncSegment(segment);
    await previousSync;
    this.syncRunning = false;
    if (flushTimer !== null) clearTimeout(flushTimer);
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
    // Somebody deleted the file: continue in a new segment, which the drain can find.
    if (segment === this.segment && segment.isGone) this.nextSegment = true;
    this.scheduleSync();
  }

  private async syncSegment(segment: Segment): Promise<boolean> {
    const error = await segment.sync();
    const message = error === null ? null : messageOf(error);
    if (message !== this.syncError) {
      this.syncError = message;
      this.reportError();
    }
    return error !== null;
  }

  /** While the store is unavailable for long, the journal must not fill the disk. */
  private checkDiskUse(): void {
    const { diskBytesMax, segmentBytes, retryMs } = this.options;
    const bytes = segmentsIn(this.slotFolder).length * segmentBytes;
    const message = bytes > diskBytesMax ? `more than ${diskBytesMax} bytes of receipts wait for the store` : null;
    if (message !== null && !this.ended) setTimeout(() => this.checkDiskUse(), retryMs).unref();
    if (message === this.diskError) return;
    this.diskError = message;
    this.reportError();
  }

  private reportError(): void {
    const message = this.writeError ?? this.syncError ?? this.diskError;
    // The first dropped record changes the message, so that it is reported once; later ones are only counted.
    const reported = message === null ? null : this.memoryFull ? `${message}, and memory is full` : message;
    if (reported === this.reportedMessage) return;
    this.reportedMessage = reported;
    this.options.onError(reported === null ? null : { message: reported, lost: this.lost });
  }
}

type WriteGroup = PromiseWithResolvers<void>;

function resolveAll(groups: readonly WriteGroup[]): void {
  for (const group of groups) group.resolve();
}

/** A new file survives a power failure only after its folder was synced too. File systems that cannot sync a folder do not need it. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const opened = await open(folder, "r");
    try {
      await opened.sync();
    } finally {
      await opened.close();
    }
  } catch {
    // A failing disk shows in the sync of the file itself.
  }
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT" || code === "EROFS";
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A call without a budget gets an opening only if it runs for longer than this. */
const openingDelayMs = 20;
const done = Promise.resolve();
const defaults = {
  sync: false,
  segmentBytes: 16 << 20,
  memoryBytesMax: 64 << 20,
  diskBytesMax: 8 * 2 ** 30,
  flushTimeoutMs: 2_000,
  retryMs: 1_000,
};
const syncEveryMs = 20;
const slotsMax = 1_000;
const bufferBytes = 256 << 10;
const bufferBytesKept = 1 << 20;
const pieceBytesMax = 4 << 20;
