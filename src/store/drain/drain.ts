import { appendFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { StorageTrouble } from "../../gateway/storage.ts";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import { requestNameOf } from "../../usage/request-name.ts";
import type { Spending } from "../tables/budget-table.ts";
import type { Database } from "../database.ts";
import { segmentFile, segmentsIn } from "../journal/folder.ts";
import { SegmentReader, type Batch, type Beginning } from "../journal/reader.ts";
import { entryOf, type ReceiptEntry } from "../receipts/receipt-entry.ts";
import { receiptLine, type Head } from "../receipts/receipt-line.ts";
import { receiptPlace } from "../receipts/receipt-row.ts";
import { addEntries, addNewEntries, SeenBefore } from "../receipts/receipt-table.ts";
import { sql } from "../sql.ts";
import { addToSums, nanosOf, type Sum } from "../receipts/usage-sums.ts";

export interface DrainNeeds {
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
  private current: Place | null = null;
  /** Calls of a dead process that were under way, as far as it has been read. */
  private readonly underWay = new Map<string, ReceiptOpening>();
  /** How many receipts are written at once: fewer for a while after the store did not take so many. */
  private receiptsMax: number;
  private drained = 0;
  /** When last looked at, there was nothing beyond. */
  private atEnd = false;
  private done: { readonly segment: number; readonly position: number } = { segment: 0, position: 0 };

  /** `firstLive`: the first segment of the process that is still writing; null where none is. */
  constructor(
    private readonly needs: DrainNeeds,
    private readonly folder: string,
    private readonly firstLive: number | null,
  ) {
    this.receiptsMax = this.usualMax;
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
  get place(): { readonly segment: number; readonly position: number } {
    return this.done;
  }

  /** Whether everything up to a place is in the store. */
  hasDone(segment: number, position: number): boolean {
    return this.done.segment > segment || (this.done.segment === segment && this.done.position >= position);
  }

  /** Does a little; false where there was nothing to do. Throws where the store is not to be had; then it is to be called again. */
  async step(): Promise<boolean> {
    this.atEnd = false;
    this.current ??= await this.nextPlace();
    if (this.current === null) return false;
    const place = this.current;
    const batch = this.read(place);
    if (batch.position > place.position && !(await this.keeps(place, batch))) return true;
    if (!batch.atEnd) return true;
    if (place.finished) return this.leaves(place);
    // The writer goes on with a new segment when this one is complete; only what is read after that is all of it.
    place.finished = segmentsIn(this.folder).some((segment) => segment > place.segment);
    this.atEnd = !place.finished;
    return place.finished;
  }

  close(): void {
    this.current?.reader.close();
    this.current = null;
  }

  private get usualMax(): number {
    return this.needs.receiptsMax ?? receiptsMaxDefault[this.needs.database.engine];
  }

  private isLive(segment: number): boolean {
    return this.firstLive !== null && segment >= this.firstLive;
  }

  private read({ reader, position, segment, finished }: Place): Batch {
    return reader.read(position, { receiptsMax: this.receiptsMax, finished, openings: !this.isLive(segment) });
  }

  /** The oldest segment that is there, from where it was left. */
  private async nextPlace(): Promise<Place | null> {
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
      const position = head === null ? 0 : Math.min(reader.bytes, await storedPosition(this.needs.database, head.segment));
      const place: Place = { segment, reader, head, position, finished: !live };
      this.recall(place);
      this.done = { segment, position };
      return place;
    } catch (error) {
      reader.close();
      throw error;
    }
  }

  /** What was under way at a place, or over, is told by what lies before it in the same segment. */
  private recall({ segment, reader, position, head }: Place): void {
    const live = this.isLive(segment);
    this.drained = live ? (head?.receipts ?? this.drained) : 0;
    for (let at = 0; at < position;) {
      const batch = reader.read(at, { receiptsMax: this.usualMax, finished: true, openings: !live, until: position });
      if (batch.position === at) return;
      if (live) this.drained += batch.receipts.length;
      else this.follow(batch);
      at = batch.position;
    }
  }

  private follow({ openings, receipts }: Pick<Batch, "openings" | "receipts">): void {
    for (const opening of openings) this.underWay.set(opening.id, opening);
    if (this.underWay.size > 0) for (const { row } of receipts) this.underWay.delete(String(row[idPlace]));
  }

  /** False where it has to be tried again in smaller parts. */
  private async keeps(place: Place, batch: Batch): Promise<boolean> {
    place.head ??= batch.head;
    if (batch.receipts.length > 0 && !(await this.keepsReceipts(place, batch))) return false;
    for (const damage of batch.damages) this.needs.report(damage);
    place.position = batch.position;
    this.done = { segment: place.segment, position: batch.position };
    if (this.isLive(place.segment)) this.drained += batch.receipts.length;
    else this.follow(batch);
    return true;
  }

  private async keepsReceipts(place: Place, { receipts, position }: Batch): Promise<boolean> {
    try {
      await this.write(place, receipts, position);
      this.receiptsMax = Math.min(this.usualMax, this.receiptsMax * 2);
    } catch (error) {
      // A store that is slow may take fewer in its time; one that refuses a receipt takes the others.
      this.receiptsMax = Math.ceil(receipts.length / 2);
      if (!isRefusal(error)) throw error;
      if (receipts.length > 1) return false;
      await this.setAside(place, position);
      this.needs.report(`${this.refusedFile}: put there is a receipt that the store takes only in part: ${saidBy(error)}`);
    }
    return true;
  }

  /** What a receipt must have goes to the store; if it refuses that as well, it is not the receipt that is wrong. */
  private async setAside(place: Place, position: number): Promise<void> {
    const receipts = place.reader.receipts(place.position, position);
    const plain = receipts.map((receipt) => ({
      ...receipt,
      requestId: requestNameOf(receipt.id),
      upstreamModel: null,
      error: null,
      attempts: [],
      plan: null,
    }));
    await this.write(place, plain.map(entryOf), position);
    for (const receipt of receipts) appendFileSync(this.refusedFile, `${receiptLine(receipt)}\n`, { mode: 0o600 });
  }

  private get refusedFile(): string {
    return join(this.folder, "refused.jsonl");
  }

  private async write(place: Place, entries: readonly ReceiptEntry[], position: number): Promise<void> {
    try {
      await this.writeWith(addNewEntries, place, entries, position);
    } catch (error) {
      if (!(error instanceof SeenBefore)) throw error;
      // A death between two steps makes us read again what is in the store: then each is looked at by itself.
      await this.writeWith(addEntries, place, entries, position);
    }
  }

  private async writeWith(
    add: typeof addEntries,
    { head, segment }: Place,
    entries: readonly ReceiptEntry[],
    position: number,
  ): Promise<void> {
    const { database, settle } = this.needs;
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
  private async leaves(place: Place): Promise<boolean> {
    const next = segmentsIn(this.folder).find((segment) => segment > place.segment);
    const follower = next === undefined ? null : { segment: next, ...beginningOf(segmentFile(this.folder, next)) };
    if (this.isLive(place.segment)) {
      // Which calls are under way must stand somewhere at every moment.
      if (follower?.whole !== true) return false;
    } else if (!this.livesOn(place, follower)) {
      if (this.underWay.size > 0) await this.keepUnknown(place);
      // This was the last of a life that is over, and all that it spent is counted.
      if (place.head !== null) await this.needs.release(this.needs.database, place.head.holder);
    }
    // In this order a death in between makes it be read once more, which changes nothing.
    if (place.head !== null) await this.needs.database.run(sql`delete from journals where name = ${place.head.segment}`);
    place.reader.close();
    rmSync(place.reader.path, { force: true });
    this.done = { segment: place.segment + 1, position: 0 };
    this.current = null;
    return true;
  }

  /** Whether a segment of the same process follows, which knows of its calls as well; if it does not tell by whom it is, it is taken for one. */
  private livesOn(place: Place, follower: (Beginning & { readonly segment: number }) | null): boolean {
    if (follower === null || this.isLive(follower.segment) || !follower.whole) return false;
    return follower.head === null || place.head === null || follower.head.life === place.head.life;
  }

  /** The process died during these calls: what they cost is what was reserved for them. */
  private async keepUnknown(place: Place): Promise<void> {
    const openings = [...this.underWay.values()];
    for (let at = 0; at < openings.length; at += this.usualMax) {
      const receipts = openings.slice(at, at + this.usualMax).map(unknownReceipt);
      await this.write(place, receipts.map(entryOf), place.position);
    }
    this.underWay.clear();
  }
}

interface Place {
  readonly segment: number;
  readonly reader: SegmentReader;
  head: Head | null;
  position: number;
  finished: boolean;
}

function beginningOf(file: string): Beginning {
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
function spendingOf(sum: Sum): Spending {
  return { keyId: sum.keyId, model: sum.model, nanos: nanosOf(sum), atMs: sum.atMs };
}

const idPlace = receiptPlace("id");

/** The store is there and says no, which waiting does not change. */
function isRefusal(error: unknown): boolean {
  return !(error instanceof StorageTrouble) || (error.kind !== "unavailable" && error.kind !== "full");
}

function saidBy(error: unknown): string {
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
