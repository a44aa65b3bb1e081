import { appendFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { StorageError } from "../../gateway/storage.ts";
import { anyChannel } from "../../keys/budget-selector.ts";
import { type ReceiptOpening, type Receipt, requestNameOf } from "../../usage/receipt.ts";
import type { Spending } from "../tables/budget-table.ts";
import type { Database } from "../database.ts";
import { finishedFile, segmentFile, segmentsIn } from "../journal/folder.ts";
import { movePosition, PositionChanged, removeFinished, storedPosition } from "./journal-positions.ts";
import { SegmentReader, type JournalBatch, type SegmentStart } from "../journal/reader.ts";
import { entryOf, type ReceiptEntry } from "../receipts/receipt-entry.ts";
import { receiptLine, wordsOf, type SegmentHeader } from "../receipts/receipt-line.ts";
import { receiptColumnIndex } from "../receipts/receipt-row.ts";
import { addEntries, addNewEntries, DuplicateReceipt } from "../receipts/receipt-table.ts";
import { isThinned } from "../receipts/thinning.ts";
import { sql } from "../sql.ts";
import { addToSums, nanosOf, type UsageSum } from "../receipts/usage-sums.ts";

export interface SlotDrainOptions {
  readonly database: Database;
  /** Deducts what was spent from the budget holds of a process. */
  readonly settle: (database: Database, holder: string, spent: readonly Spending[]) => Promise<void>;
  /** Releases the budget holds of a process that has died. */
  readonly release: (database: Database, holder: string) => Promise<void>;
  /** Called with a message about each record that could not be read or stored. */
  readonly report: (message: string) => void;
  /** The most receipts in one transaction. */
  readonly receiptsMax?: number;
  /** The share of plain successes whose receipts are stored. The others are only counted. */
  readonly keptShare?: number;
}

/**
 * Moves the receipts of one slot into the store, each exactly once: receipts, sums, budget holds and the journal position change in
 * one transaction, which is rolled back if the position is not the expected one. A receipt that is already stored changes nothing.
 * Journals of dead processes are drained in the same way, except that all of their receipts are stored.
 */
export class SlotDrain {
  private current: SegmentCursor | null = null;
  /** Calls of a dead process that have an opening, but no receipt so far. */
  private readonly inFlight = new Map<string, ReceiptOpening>();
  /** The current batch size. It is halved after a failure and grows again afterwards. */
  private receiptsMax: number;
  private drained = 0;
  /** Nothing was left to read at the last look. */
  private atEnd = false;
  private done: { readonly segment: number; readonly position: number } = { segment: 0, position: 0 };

  /** `firstLive`: the first segment of the process that is still writing; null if there is none. */
  constructor(
    private readonly options: SlotDrainOptions,
    private readonly folder: string,
    private readonly firstLive: number | null,
  ) {
    this.receiptsMax = this.batchMax;
  }

  /** How many receipts of the running process are in the store. */
  get receipts(): number {
    return this.drained;
  }

  /** How many bytes of the slot have not been read yet. */
  get behindBytes(): number {
    if (this.atEnd) return 0;
    return segmentsIn(this.folder)
      .filter((segment) => segment >= this.done.segment)
      .reduce((sum, segment) => sum + Bun.file(segmentFile(this.folder, segment)).size, -this.done.position);
  }

  /** Everything up to this position is in the store. */
  get position(): { readonly segment: number; readonly position: number } {
    return this.done;
  }

  /** Whether everything up to a position is in the store. */
  hasDone(segment: number, position: number): boolean {
    return this.done.segment > segment || (this.done.segment === segment && this.done.position >= position);
  }

  /** Processes one batch; returns false if there was nothing to do. Throws if the store is unavailable; the next call tries again. */
  async step(): Promise<boolean> {
    try {
      return await this.nextBatch();
    } catch (error) {
      if (!(error instanceof PositionChanged)) throw error;
      // The next step reads on from where the store is.
      this.close();
      return true;
    }
  }

  private async nextBatch(): Promise<boolean> {
    this.atEnd = false;
    this.current ??= await this.openOldestSegment();
    if (this.current === null) return false;
    const cursor = this.current;
    const batch = this.read(cursor);
    if (batch.position > cursor.position && !(await this.writeBatch(cursor, batch))) return true;
    if (!batch.atEnd) return true;
    if (cursor.finished) return this.finishSegment(cursor);
    // A newer segment means that this one is complete, but its last records may have been written after our last read.
    cursor.finished = segmentsIn(this.folder).some((segment) => segment > cursor.segment);
    this.atEnd = !cursor.finished;
    return cursor.finished;
  }

  close(): void {
    this.current?.reader.close();
    this.current = null;
  }

  private get batchMax(): number {
    return this.options.receiptsMax ?? receiptsMaxDefault[this.options.database.engine];
  }

  private isLive(segment: number): boolean {
    return this.firstLive !== null && segment >= this.firstLive;
  }

  private read({ reader, position, segment, finished }: SegmentCursor): JournalBatch {
    return reader.read(position, { receiptsMax: this.receiptsMax, finished, openings: !this.isLive(segment) });
  }

  /** Opens the oldest segment at the position that is stored for it. */
  private async openOldestSegment(): Promise<SegmentCursor | null> {
    await removeFinished(this.options.database, this.folder);
    const [segment] = segmentsIn(this.folder);
    if (segment === undefined) return null;
    const live = this.isLive(segment);
    const reader = new SegmentReader(segmentFile(this.folder, segment));
    try {
      const { head } = reader.beginning();
      // The header has not been written yet.
      if (head === null && live && reader.bytes === 0) {
        reader.close();
        return null;
      }
      const stored = head === null ? null : await storedPosition(this.options.database, head.segment);
      const position = Math.min(reader.bytes, stored ?? 0);
      const cursor: SegmentCursor = { segment, reader, head, position, openedAt: position, stored, finished: !live };
      this.replayBefore(cursor);
      this.done = { segment, position };
      return cursor;
    } catch (error) {
      reader.close();
      throw error;
    }
  }

  /** Restores the state at `position` by reading the segment from its start: which calls are running, how many receipts came before. */
  private replayBefore({ segment, reader, position, head }: SegmentCursor): void {
    const live = this.isLive(segment);
    this.drained = live ? (head?.receipts ?? this.drained) : 0;
    for (let at = 0; at < position;) {
      const batch = reader.read(at, { receiptsMax: this.batchMax, finished: true, openings: !live, until: position });
      if (batch.position === at) return;
      if (live) this.drained += batch.receipts.length;
      else this.trackOpen(batch);
      at = batch.position;
    }
  }

  private trackOpen({ openings, receipts }: Pick<JournalBatch, "openings" | "receipts">): void {
    for (const opening of openings) this.inFlight.set(opening.id, opening);
    if (this.inFlight.size > 0) for (const { row } of receipts) this.inFlight.delete(String(row[idColumn]));
  }

  /** Returns false if the batch must be retried with a smaller size. */
  private async writeBatch(cursor: SegmentCursor, batch: JournalBatch): Promise<boolean> {
    cursor.head ??= batch.head;
    if (batch.receipts.length > 0 && !(await this.writeReceipts(cursor, batch))) return false;
    for (const damage of batch.damages) this.options.report(damage);
    cursor.position = batch.position;
    this.done = { segment: cursor.segment, position: batch.position };
    if (this.isLive(cursor.segment)) this.drained += batch.receipts.length;
    else this.trackOpen(batch);
    return true;
  }

  private async writeReceipts(cursor: SegmentCursor, { receipts, position }: JournalBatch): Promise<boolean> {
    try {
      await this.write(cursor, receipts, position);
      this.receiptsMax = Math.min(this.batchMax, this.receiptsMax * 2);
    } catch (error) {
      if (error instanceof PositionChanged) throw error;
      // A slow store may manage a smaller batch in time, and one that rejects a single receipt takes the others.
      this.receiptsMax = Math.ceil(receipts.length / 2);
      if (!isRejection(error)) throw error;
      if (receipts.length > 1) return false;
      await this.writeReduced(cursor, position);
      this.options.report(`${this.refusedFile}: a receipt was put there, because the store accepts only a part of it: ${messageOf(error)}`);
    }
    return true;
  }

  /** Stores a rejected receipt without its optional fields. If that is rejected as well, the receipt is not the cause. */
  private async writeReduced(cursor: SegmentCursor, position: number): Promise<void> {
    const receipts = cursor.reader.receipts(cursor.position, position);
    const plain = receipts.map((receipt) => ({
      ...receipt,
      requestId: requestNameOf(receipt.id),
      upstreamModel: null,
      error: null,
      attempts: [],
      plan: null,
    }));
    await this.write(cursor, plain.map(entryOf), position);
    for (const receipt of receipts) appendFileSync(this.refusedFile, `${receiptLine(receipt)}\n`, { mode: 0o600 });
  }

  private get refusedFile(): string {
    return join(this.folder, "refused.jsonl");
  }

  private async write(cursor: SegmentCursor, entries: readonly ReceiptEntry[], position: number): Promise<void> {
    try {
      await this.writeWith(addNewEntries, cursor, entries, position);
    } catch (error) {
      if (!(error instanceof DuplicateReceipt)) throw error;
      // After a crash, records are read again that are already in the store: insert those one by one.
      await this.writeWith(addEntries, cursor, entries, position);
    }
  }

  private async writeWith(
    add: typeof addEntries,
    cursor: SegmentCursor,
    entries: readonly ReceiptEntry[],
    position: number,
  ): Promise<void> {
    const { database, settle } = this.options;
    const { head, segment, stored } = cursor;
    // What is not stored is counted once only because of the position. After a crash all is stored, so that even without one nothing is counted twice.
    const keptShare = head !== null && this.isLive(segment) ? (this.options.keptShare ?? 1) : 1;
    const { kept = [], thinned = [] } =
      keptShare === 1 ? { kept: entries } : Object.groupBy(entries, (entry) => (isThinned(entry, keptShare) ? "thinned" : "kept"));
    await database.transaction(async (inside) => {
      if (head !== null) await movePosition(inside, head.segment, segment, stored, position);
      const sums = await addToSums(inside, await add(inside, kept), thinned);
      if (head === null) return;
      const ofKeys = sums.keys.map((sum) => spendingOf(sum, false));
      const spent = [...ofKeys, ...sums.owners.map((sum) => spendingOf(sum, true))].filter(({ nanos }) => nanos > 0);
      if (spent.length > 0) await settle(inside, head.holder, spent);
    });
    if (head !== null) cursor.stored = position;
  }

  /** Deletes a segment that is completely in the store. Returns false if it must be kept for now. */
  private async finishSegment(cursor: SegmentCursor): Promise<boolean> {
    const next = segmentsIn(this.folder).find((segment) => segment > cursor.segment);
    const follower = next === undefined ? null : { segment: next, ...beginningOf(segmentFile(this.folder, next)) };
    if (this.isLive(cursor.segment)) {
      // The openings of running calls must be on disk at every moment, so that the next segment must be complete first.
      if (follower?.whole !== true) return false;
    } else if (!this.continuesIn(cursor, follower)) {
      if (this.inFlight.size > 0) await this.writeUnknownReceipts(cursor);
      // This was the last segment of a process that has died, and all that it spent is counted.
      if (cursor.head !== null) await this.options.release(this.options.database, cursor.head.holder);
    }
    if (cursor.reader.hasUnknown) await this.keepSegment(cursor);
    // It is not read again without its position, because then some of it would be counted again.
    else renameSync(cursor.reader.path, finishedFile(this.folder, cursor.segment));
    cursor.reader.close();
    this.done = { segment: cursor.segment + 1, position: 0 };
    this.current = null;
    await removeFinished(this.options.database, this.folder);
    return true;
  }

  /** Records of a newer version are kept for it. It begins where this process did: all receipts since then are stored, and counted once. */
  private async keepSegment({ head, openedAt, reader: { path } }: SegmentCursor): Promise<void> {
    if (head !== null) {
      await this.options.database.run(sql`update journals set position = ${openedAt} where name = ${head.segment}`);
    }
    const kept = path.replace(/\.log$/, `.unread-${Bun.randomUUIDv7()}`);
    renameSync(path, kept);
    this.options.report(
      `${kept}: this segment was kept, because a newer version wrote some of it. To store that, start the newer version after renaming it to a number that is free, such as 9001.log.`,
    );
  }

  /** Whether a later segment of the same process exists, which repeats the openings. A segment without a readable header counts as one. */
  private continuesIn(cursor: SegmentCursor, follower: (SegmentStart & { readonly segment: number }) | null): boolean {
    if (follower === null || this.isLive(follower.segment) || !follower.whole) return false;
    return follower.head === null || cursor.head === null || follower.head.runId === cursor.head.runId;
  }

  /** The process died during these calls, so that their cost is unknown: they are billed what was reserved for them. */
  private async writeUnknownReceipts(cursor: SegmentCursor): Promise<void> {
    const openings = [...this.inFlight.values()];
    for (let at = 0; at < openings.length; at += this.batchMax) {
      const receipts = openings.slice(at, at + this.batchMax).map(unknownReceipt);
      await this.write(cursor, receipts.map(entryOf), cursor.position);
    }
    this.inFlight.clear();
  }
}

interface SegmentCursor {
  readonly segment: number;
  readonly reader: SegmentReader;
  head: SegmentHeader | null;
  position: number;
  /** Where this process began to read. */
  readonly openedAt: number;
  /** The position that the store has of this segment; null if it has none. */
  stored: number | null;
  finished: boolean;
}

/** Who wrote a segment, and whether the openings at its beginning are complete. */
export function beginningOf(file: string): SegmentStart {
  const reader = new SegmentReader(file);
  try {
    return reader.beginning();
  } finally {
    reader.close();
  }
}

/** No budget period begins within an hour, so that all calls of an hour were paid from the same hold. */
function spendingOf(sum: UsageSum, asOwner: boolean): Spending {
  const { ownerId, model, channel, tags, operation, atMs } = sum;
  return { ownerId, asOwner, model, channel, tags: wordsOf(tags), operation, nanos: nanosOf(sum), atMs };
}

const idColumn = receiptColumnIndex("id");

/** The store is reachable and rejects the data, so that waiting does not help. */
function isRejection(error: unknown): boolean {
  return !(error instanceof StorageError) || (error.kind !== "unavailable" && error.kind !== "full");
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function unknownReceipt(opening: ReceiptOpening): Receipt {
  const { id, requestId, keyId, operation, model, stream, startedMs, promptTokens, audioSeconds, characters, nanos, owners } = opening;
  return {
    id,
    requestId,
    keyId,
    operation,
    model,
    channel: null,
    upstreamModel: null,
    stream,
    status: 0,
    state: "unknown",
    error: null,
    startedMs,
    tookMs: 0,
    firstContentMs: null,
    delivered: { promptTokens, cachedTokens: null, completionTokens: null, reasoningTokens: null, audioSeconds, characters },
    generatedTokens: null,
    billedNanos: nanos,
    hedgeWasteNanos: 0,
    costUncertain: true,
    estimated: true,
    partial: true,
    warning: null,
    finish: null,
    cacheSavedNanos: null,
    owners,
    channelTags: owners.length === 0 ? [] : [anyChannel],
    attempts: [],
    plan: null,
  };
}

/**
 * Larger transactions are faster; one of this size takes about 0.1 s. If each receipt belongs to another key, each transaction
 * rewrites all pages of the sums, so that fewer transactions cost less. On PostgreSQL a batch must finish within the statement timeout.
 */
const receiptsMaxDefault = { sqlite: 20_000, postgres: 5_000 } as const;
