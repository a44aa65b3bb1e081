import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import { frameAt, nextFrame, textBytesMax } from "./frame.ts";
import { entryOfLine, type ReceiptEntry } from "../receipts/receipt-entry.ts";
import { isOpeningLine, lineOf, lineOfParsed, type SegmentHeader } from "../receipts/receipt-line.ts";

/** What was found between two places of a segment. */
export interface JournalBatch {
  readonly head: SegmentHeader | null;
  readonly openings: readonly ReceiptOpening[];
  readonly receipts: readonly ReceiptEntry[];
  /** Where the next one begins. */
  readonly position: number;
  /** There is nothing more, now. */
  readonly atEnd: boolean;
  /** What could not be read, in words. */
  readonly damages: readonly string[];
}

export interface ReadLimits {
  readonly receiptsMax: number;
  /** Nobody writes to it any more: what is not whole now never will be. */
  readonly finished: boolean;
  /** Openings matter only where their process has died. */
  readonly openings: boolean;
  /** Records that begin here or later are left for another time. */
  readonly until?: number;
}

export interface SegmentStart {
  readonly head: SegmentHeader | null;
  readonly whole: boolean;
}

/** Reads one segment, which may still be written to. */
export class SegmentReader {
  private readonly file: number;

  constructor(readonly path: string) {
    this.file = openSync(path, "r");
  }

  get bytes(): number {
    return fstatSync(this.file).size;
  }

  read(position: number, limits: ReadLimits): JournalBatch {
    const bytes = buffer.subarray(0, readSync(this.file, buffer, 0, buffer.length, position));
    const found: BatchContents = { head: null, openings: [], receipts: [], damages: [] };
    let at = 0;
    let unknown = 0;
    const until = (limits.until ?? Infinity) - position;
    while (at < bytes.length && at < until && found.receipts.length < limits.receiptsMax) {
      const frame = frameAt(bytes, at);
      if (frame.kind !== "frame") {
        // It may go on behind what was read.
        if (frame.kind === "short" && bytes.length === buffer.length) break;
        return this.skipDamage(position + at, limits, found);
      }
      if ((limits.openings || !isOpeningLine(frame.text)) && !addLine(found, frame.text)) {
        unknown += 1;
        // One word for all of them, as there may be a million.
        if (unknown === 1) {
          found.damages.push(`${this.path}: the record at byte ${position + at} is of a kind that this version does not know`);
        }
      }
      at = frame.to;
    }
    return { ...found, position: position + at, atEnd: at === bytes.length && bytes.length < buffer.length };
  }

  /** Who writes it, and whether all of what it begins with is there: who writes, and which calls were under way. */
  beginning(): SegmentStart {
    let head: SegmentHeader | null = null;
    let openings = 0;
    for (let position = 0; ;) {
      const batch = this.read(position, { receiptsMax: 1, finished: true, openings: true });
      head ??= batch.head;
      openings += batch.openings.length;
      // A receipt comes only behind them.
      const whole = batch.receipts.length > 0 || (head !== null && openings >= head.inFlight);
      if (whole || batch.position === position || batch.atEnd) return { head, whole };
      ({ position } = batch);
    }
  }

  /** Here is no whole frame. Where one follows, what is between them is damaged; where none does, it may just not be there yet. */
  private skipDamage(position: number, limits: ReadLimits, found: Omit<JournalBatch, "position" | "atEnd">): JournalBatch {
    const rest = this.rest(position);
    // Whoever writes it may just have gone on.
    if (frameAt(rest, 0).kind === "frame") return { ...found, position, atEnd: false };
    const next = nextFrame(rest, 1);
    if (next !== null) {
      const damage = `${this.path}: ${next} bytes from byte ${position} on are damaged and were left out`;
      return { ...found, damages: [...found.damages, damage], position: position + next, atEnd: false };
    }
    if (!limits.finished) return { ...found, position, atEnd: true };
    const damage = `${this.path}: the last ${rest.length} bytes are no whole record and were left out`;
    return { ...found, damages: [...found.damages, damage], position: position + rest.length, atEnd: true };
  }

  /** The receipts between two places that are the bounds of a batch, with all that they tell. */
  receipts(from: number, to: number): readonly Receipt[] {
    const bytes = Buffer.allocUnsafe(to - from);
    readSync(this.file, bytes, 0, bytes.length, from);
    const receipts: Receipt[] = [];
    for (let frame = frameAt(bytes, 0); frame.kind === "frame"; frame = frameAt(bytes, frame.to)) {
      const line = lineOf(frame.text);
      if (line?.kind === "receipt") receipts.push(line.receipt);
    }
    return receipts;
  }

  protected rest(position: number): Buffer {
    const rest = Buffer.allocUnsafe(Math.min(restBytesMax, Math.max(0, this.bytes - position)));
    return rest.subarray(0, readSync(this.file, rest, 0, rest.length, position));
  }

  close(): void {
    closeSync(this.file);
  }
}

interface BatchContents {
  head: SegmentHeader | null;
  readonly openings: ReceiptOpening[];
  readonly receipts: ReceiptEntry[];
  readonly damages: string[];
}

/** False where the text is no line that this version knows. */
function addLine(found: BatchContents, text: string): boolean {
  try {
    const parsed: unknown = JSON.parse(text);
    // A NUL, or half of a character, is not in a text of UTF-8 but as an escape.
    const isPlain = !text.includes("\\");
    const entry = entryOfLine(parsed, isPlain);
    if (entry !== null) {
      found.receipts.push(entry);
      return true;
    }
    const line = lineOfParsed(parsed);
    if (line?.kind === "head") found.head = line.head;
    else if (line?.kind === "opening") found.openings.push(line.opening);
    return line !== null;
  } catch {
    return false;
  }
}

/**
 * About as much as a full batch of receipts and their openings, and more than the longest record. Nothing of it is kept beyond a
 * batch, so that all readers of a thread share it.
 */
const buffer = Buffer.allocUnsafe(6 * textBytesMax);
/** A segment is not longer, but for what one turn of the event loop brought, and nobody knows what lies in a folder. */
const restBytesMax = 256 << 20;
