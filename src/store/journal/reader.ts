import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import { frameAt, nextFrame, textBytesMax } from "./frame.ts";
import { entryOfLine, type ReceiptEntry } from "../receipts/receipt-entry.ts";
import { isOpeningLine, lineOf, lineOfParsed, type SegmentHeader } from "../receipts/receipt-line.ts";

/** The records between two positions of a segment. */
export interface JournalBatch {
  readonly head: SegmentHeader | null;
  readonly openings: readonly ReceiptOpening[];
  readonly receipts: readonly ReceiptEntry[];
  /** Where the next batch begins. */
  readonly position: number;
  /** The segment has no more records at the moment. */
  readonly atEnd: boolean;
  /** Messages about what could not be read. */
  readonly damages: readonly string[];
}

export interface ReadLimits {
  readonly receiptsMax: number;
  /** Nobody writes to the segment any more, so that an incomplete frame at its end is damage. */
  readonly finished: boolean;
  /** Whether to return openings. They matter only if their process has died. */
  readonly openings: boolean;
  /** Reading stops at this position. */
  readonly until?: number;
}

export interface SegmentStart {
  readonly head: SegmentHeader | null;
  readonly whole: boolean;
}

/** Reads one segment, while it may still be written. */
export class SegmentReader {
  /** A record was read that this version does not know: a newer one has written it. */
  hasUnknown = false;
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
        // The frame may continue beyond the buffer.
        if (frame.kind === "short" && bytes.length === buffer.length) break;
        return this.skipDamage(position + at, limits, found);
      }
      if ((limits.openings || !isOpeningLine(frame.text)) && !addLine(found, frame.text)) {
        unknown += 1;
        this.hasUnknown = true;
        // Report only the first one: there may be a million.
        if (unknown === 1) {
          found.damages.push(`${this.path}: the record at byte ${position + at} is of a kind that this version does not know`);
        }
      }
      at = frame.to;
    }
    return { ...found, position: position + at, atEnd: at === bytes.length && bytes.length < buffer.length };
  }

  /** The segment's header, and whether the openings that follow it are complete. */
  beginning(): SegmentStart {
    let head: SegmentHeader | null = null;
    let openings = 0;
    for (let position = 0; ;) {
      const batch = this.read(position, { receiptsMax: 1, finished: true, openings: true });
      head ??= batch.head;
      openings += batch.openings.length;
      // Openings come before the first receipt.
      const whole = batch.receipts.length > 0 || (head !== null && openings >= head.inFlight);
      if (whole || batch.position === position || batch.atEnd) return { head, whole };
      ({ position } = batch);
    }
  }

  /** Called at a position without a valid frame. If one follows, the bytes in between are damaged; if none does, they may just not be written yet. */
  private skipDamage(position: number, limits: ReadLimits, found: Omit<JournalBatch, "position" | "atEnd">): JournalBatch {
    const rest = this.rest(position);
    // The writer may have completed the frame in the meantime.
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

  /** The full receipts between two positions at which batches begin. */
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

/** Returns false for a line that this version does not know. */
function addLine(found: BatchContents, text: string): boolean {
  try {
    const parsed: unknown = JSON.parse(text);
    // Decoded UTF-8 contains NUL and lone surrogates only as escapes.
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
 * Holds about a full batch of receipts with their openings, and always more than the longest record. All readers of a thread share
 * it, because nothing in it is used after a batch was parsed.
 */
const buffer = Buffer.allocUnsafe(6 * textBytesMax);
/** More than any segment that we write, as a bound for other files in the folder. */
const restBytesMax = 256 << 20;
