import { randomBytes } from "node:crypto";

/**
 * Ids for receipts: unique, and rising with time (UUID, version 7). The runtime makes such ids too, but not the name that
 * goes with them, and every request needs both: here most of the text is made once for all requests of a moment.
 */
export class ReceiptIds {
  private timeMs = 0;
  private count = countMax;
  private idHead = "";
  private nameHead = "";
  private idTail = "";
  private nameTail = "";
  private tailFromMs = -Infinity;

  /** The id that a receipt of the next request would have. */
  next(wallMs: number): string {
    if (wallMs > this.timeMs) this.turn(wallMs);
    // More than a clock's tick has room for, or a clock that was set back: the time of the ids goes on by itself.
    else if (this.count === countMax) this.turn(this.timeMs + 1);
    return `${this.idHead}${counts[this.count++]!}${this.idTail}`;
  }

  /** The name that this request goes by, unless its client brought one: as `requestNameOf` would make it of the last id. */
  name(): string {
    return `${this.nameHead}${counts[this.count - 1]!}${this.nameTail}`;
  }

  private turn(timeMs: number): void {
    this.timeMs = timeMs;
    this.count = 0;
    const hex = timeMs.toString(16).padStart(12, "0");
    this.idHead = `${hex.slice(0, 8)}-${hex.slice(8)}-7`;
    this.nameHead = `req_${hex}7`;
    if (Math.abs(timeMs - this.tailFromMs) < tailMs) return;
    this.tailFromMs = timeMs;
    const bytes = randomBytes(8);
    bytes[0] = (bytes[0]! & 0x3f) | 0x80;
    this.nameTail = bytes.toString("hex");
    this.idTail = `-${this.nameTail.slice(0, 4)}-${this.nameTail.slice(4)}`;
  }
}

const countMax = 0x1000;
const counts = Array.from({ length: countMax }, (_, count) => count.toString(16).padStart(3, "0"));
/** How long the random part stays the same. */
const tailMs = 1_000;
