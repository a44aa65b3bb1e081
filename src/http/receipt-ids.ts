import { randomBytes } from "node:crypto";

/**
 * Makes the ids of receipts: UUIDs of version 7, which are unique and ordered by time (RFC 9562, 5.7). The runtime makes such
 * ids too, but every request also needs a request id derived from it; here most of both texts is shared by all requests of a
 * millisecond.
 */
export class ReceiptIds {
  private timeMs = 0;
  private count = countMax;
  private idHead = "";
  private nameHead = "";
  private idTail = "";
  private nameTail = "";
  private tailFromMs = -Infinity;

  /** The id for the receipt of the next request. */
  next(wallMs: number): string {
    if (wallMs > this.timeMs) this.turn(wallMs);
    // A clock that was wrong and is right now: receipts are listed by the time in their ids, and would be missing in lists of their time.
    else if (this.timeMs - wallMs > setBackMs) this.turn(wallMs);
    // Too many ids for one millisecond, or a clock that was set back a little: the time in the ids advances by itself.
    else if (this.count === countMax) this.turn(this.timeMs + 1);
    return `${this.idHead}${counts[this.count++]!}${this.idTail}`;
  }

  /** The request id, unless the client sent one: the same that `requestNameOf` derives from the last id. */
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
/** Lists of receipts take ids of up to a minute before and after their time. */
const setBackMs = 60_000;
