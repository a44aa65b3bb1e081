import { appendFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { StorageTrouble } from "../../gateway/storage.ts";
import { type ReceiptOpening, type Receipt, requestNameOf } from "../../usage/receipt.ts";
import type { Spending } from "../tables/budget-table.ts";
import type { Database } from "../database.ts";
import { segmentFile, segmentsIn } from "../journal/folder.ts";
import { SegmentReader, type JournalBatch, type SegmentStart } from "../journal/reader.ts";
import { entryOf, type ReceiptEntry } from "../receipts/receipt-entry.ts";
import { receiptLine, type SegmentHeader } from "../receipts/receipt-line.ts";
import { receiptColumnIndex } from "../receipts/receipt-row.ts";
import { addEntries, addNewEntries, DuplicateReceipt } from "../receipts/receipt-table.ts";
import { sql } from "../sql.ts";
import { addToSums, nanosOf, type UsageSum } from "../receipts/usage-sums.ts";

export interface SlotDrainOptions {
  readonly database: Database;
  /** Takes what was spent off the budgets' holds of a process. */
  readonly settle: (database: Database, holder: string, spent: readonly Spending[]) => Promise<void>;
  /** Gives back what a process held of budgets and did not live to spend. */
  readonly release: (database: Database, holder: string) => Promise<void>;
  /** Is told of what could not be read, in words. */
  readonly report: (message: string) => void;
  /** Receipts of one transaction. */
  readonly receiptsMax?: number;
}

/**
 * Carries the receipts of one slot into the store, each exactly once: receipts, sums, budgets and the place in the journal
 * change together, and a receipt that is there already changes nothing. What a death left behind takes the same way.
 */
export class SlotDrain {
  private current: SegmentCursor | null = null;
  /** Calls of a dead process that were under way, as far as it has been read. */
  private readonly inFlight = new Map<string, ReceiptOpening>();
  /** How many receipts are written at once: fewer for a while after the store did not take so many. */
  private receiptsMax: number;
  private drained = 0;
  /** When last looked at, there was nothing beyond. */
  private atEnd = false;
  private done: { readonly segment: number; readonly position: number } = { segment: 0, position: 0 };

  /** `firstLive`: the first segment of the process that is still writing; null where none is. */
  constructor(
    private readonly options: SlotDrainOptions,
    private readonly folder: string,
    private readonly firstLive: number | null,
  ) {
    this.receiptsMax = this.batchMax;
  }

  /** How many receipts of the living process are in the store. */
  get receipts(): number {
    return this.drained;
  }

  /** How many bytes of the slot have still to be read. */
  get behindBytes(): number {
    if (this.atEnd) return 0;
    return segmentsIn(this.folder)
      .filter((segment) => segment >= this.done.segment)
      .reduce((sum, segment) => sum + Bun.file(segmentFile(this.folder, segment)).size, -this.done.position);
  }

  /** Everything up to here is in the store. */
  get position(): { readonly segment: number; readonly position: number } {
    return this.done;
  }

  /** Whether everything up to a place is in the store. */
  hasDone(segment: number, position: number): boolean {
    return this.done.segment > segment || (this.done.segment === segment && this.done.position >= position);
  }

  /** Does a little; false where there was nothing to do. Throws where the store is not to be had; then it is to be called again. */
  async step(): Promise<boolean> {
    this.atEnd = false;
    this.current ??= await this.openOldestSegment();
    if (this.current === null) return false;
    const cursor = this.current;
    const batch = this.read(cursor);
    if (batch.position > cursor.position && !(await this.writeBatch(cursor, batch))) return true;
    if (!batch.atEnd) return true;
    if (cursor.finished) return this.finishSegment(cursor);
    // The writer goes on with a new segment when this one is complete; only what is read after that is all of it.
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

  /** The oldest segment that is there, from where it was left. */
  private async openOldestSegment(): Promise<SegmentCursor | null> {
    const [segment] = segmentsIn(this.folder);
    if (segment === undefined) return null;
    const live = this.isLive(segment);
    const reader = new SegmentReader(segmentFile(this.folder, segment));
    try {
      const { head } = reader.beginning();
      // Nothing has been written yet, not even by whom.
      if (head === null && live && reader.bytes === 0) {
        reader.close();
        return null;
      }
      const position = head === null ? 0 : Math.min(reader.bytes, await storedPosition(this.options.database, head.segment));
      const cursor: SegmentCursor = { segment, reader, head, position, finished: !live };
      this.replayBefore(cursor);
      this.done = { segment, position };
      return cursor;
    } catch (error) {
      reader.close();
      throw error;
    }
  }

  /** What was under way at a place, or over, is told by what lies before it in the same segment. */
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

  /** False where it has to be tried again in smaller parts. */
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
      // A store that is slow may take fewer in its time; one that refuses a receipt takes the others.
      this.receiptsMax = Math.ceil(receipts.length / 2);
      if (!isRejection(error)) throw error;
      if (receipts.length > 1) return false;
      await this.writeReduced(cursor, position);
      this.options.report(`${this.refusedFile}: put there is a receipt that the store takes only in part: ${messageOf(error)}`);
    }
    return true;
  }

  /** What a receipt must have goes to the store; if it refuses that as well, it is not the receipt that is wrong. */
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
      // A death between two steps makes us read again what is in the store: then each is looked at by itself.
      await this.writeWith(addEntries, cursor, entries, position);
    }
  }

  private async writeWith(
    add: typeof addEntries,
    { head, segment }: SegmentCursor,
    entries: readonly ReceiptEntry[],
    position: number,
  ): Promise<void> {
    const { database, settle } = this.options;
    await database.transaction(async (inside) => {
      const sums = await addToSums(inside, await add(inside, entries));
      if (head === null) return;
      const spent = sums.map(spendingOf).filter(({ nanos }) => nanos > 0);
      if (spent.length > 0) await settle(inside, head.holder, spent);
      await inside.run(sql`insert into journals (name, segment, position) values (${head.segment}, ${segment}, ${position})
        on conflict (name) do update set segment = excluded.segment, position = excluded.position`);
    });
  }

  /** All of it is in the store, so that it can go. False where that must wait. */
  private async finishSegment(cursor: SegmentCursor): Promise<boolean> {
    const next = segmentsIn(this.folder).find((segment) => segment > cursor.segment);
    const follower = next === undefined ? null : { segment: next, ...beginningOf(segmentFile(this.folder, next)) };
    if (this.isLive(cursor.segment)) {
      // Which calls are under way must stand somewhere at every moment.
      if (follower?.whole !== true) return false;
    } else if (!this.continuesIn(cursor, follower)) {
      if (this.inFlight.size > 0) await this.writeUnknownReceipts(cursor);
      // This was the last of a life that is over, and all that it spent is counted.
      if (cursor.head !== null) await this.options.release(this.options.database, cursor.head.holder);
    }
    // In this order a death in between makes it be read once more, which changes nothing.
    if (cursor.head !== null) await this.options.database.run(sql`delete from journals where name = ${cursor.head.segment}`);
    cursor.reader.close();
    rmSync(cursor.reader.path, { force: true });
    this.done = { segment: cursor.segment + 1, position: 0 };
    this.current = null;
    return true;
  }

  /** Whether a segment of the same process follows, which knows of its calls as well; if it does not tell by whom it is, it is taken for one. */
  private continuesIn(cursor: SegmentCursor, follower: (SegmentStart & { readonly segment: number }) | null): boolean {
    if (follower === null || this.isLive(follower.segment) || !follower.whole) return false;
    return follower.head === null || cursor.head === null || follower.head.life === cursor.head.life;
  }

  /** The process died during these calls: what they cost is what was reserved for them. */
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
  finished: boolean;
}

function beginningOf(file: string): SegmentStart {
  const reader = new SegmentReader(file);
  try {
    return reader.beginning();
  } finally {
    reader.close();
  }
}

async function storedPosition(database: Database, segment: string): Promise<number> {
  const rows = await database.all<{ readonly position: number }>(sql`select position from journals where name = ${segment}`);
  return rows[0]?.position ?? 0;
}

/** No period of a budget begins within an hour, so that all of an hour was paid from the same hold. */
function spendingOf(sum: UsageSum): Spending {
  return { keyId: sum.keyId, model: sum.model, nanos: nanosOf(sum), atMs: sum.atMs };
}

const idColumn = receiptColumnIndex("id");

/** The store is there and says no, which waiting does not change. */
function isRejection(error: unknown): boolean {
  return !(error instanceof StorageTrouble) || (error.kind !== "unavailable" && error.kind !== "full");
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function unknownReceipt(opening: ReceiptOpening): Receipt {
  const { id, requestId, keyId, operation, model, stream, startedMs, promptTokens, audioSeconds, characters, nanos } = opening;
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
    attempts: [],
    plan: null,
  };
}

/**
 * Many come in large steps: a transaction of this size takes about a tenth of a second. Where each receipt is of another key,
 * every transaction changes all pages of the sums, so that fewer cost less; a server is to have done a statement in its time.
 */
const receiptsMaxDefault = { sqlite: 20_000, postgres: 5_000 } as const;
