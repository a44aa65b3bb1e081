import { BulkInsert } from "./bulk-insert.ts";
import { sql } from "../sql.ts";

/**
 * The minutes of an hour in which a key has receipts. Receipts are stored in the order of time, and an index by key would cost the drain
 * more than everything else when thousands of keys are active. Instead, each hourly sum, which is written anyway, marks the minutes
 * that have receipts, and a query reads only those minutes.
 */
export class MinuteSet {
  /** A bit for each minute of the first half of the hour. */
  early = 0;
  /** The same for the second half. */
  late = 0;

  add(minute: number): void {
    if (minute < halfHour) this.early |= 1 << minute;
    else this.late |= 1 << (minute - halfHour);
  }

  has(minute: number): boolean {
    return ((minute < halfHour ? this.early >> minute : this.late >> (minute - halfHour)) & 1) === 1;
  }

  join(early: number, late: number): void {
    this.early |= early;
    this.late |= late;
  }

  fill(): void {
    this.join(all, all);
  }
}

const halfHour = 30;
const all = 2 ** halfHour - 1;

/**
 * The minute, by the receipt's id, within the hour in which it is counted (`atMs`); null if the id is of another hour. The id is created
 * when a request arrives, but a call counts from its admission. Those times differ only for long uploads and when the clock was
 * set.
 */
export function minuteOfHour(id: string, atMs: number): number | null {
  const minute = Math.floor(((timeOfId(id) ?? -1) - atMs) / minuteMs);
  return minute >= 0 && minute < 2 * halfHour ? minute : null;
}

/** The time of a UUIDv7; null for other ids. Runs for each receipt, so that it allocates nothing. */
export function timeOfId(id: string): number | null {
  if (id.charCodeAt(8) !== dash || id.charCodeAt(13) !== dash || id.charCodeAt(14) !== seven) return null;
  let time = 0;
  for (let at = 0; at < 13; at += 1) {
    if (at === 8) continue;
    const digit = hexDigit(id.charCodeAt(at));
    if (digit < 0) return null;
    time = time * 16 + digit;
  }
  return time;
}

const dash = "-".charCodeAt(0);
const zero = "0".charCodeAt(0);
const seven = "7".charCodeAt(0);
const nine = "9".charCodeAt(0);
const a = "a".charCodeAt(0);
const f = "f".charCodeAt(0);

/** Lower case only; negative if it is not a hex digit. */
function hexDigit(code: number): number {
  if (code >= zero && code <= nine) return code - zero;
  return code >= a && code <= f ? code - a + 10 : -1;
}
export const minuteMs = 60_000;

/** The few receipts that are not found through their hour. */
export const strayRows = new BulkInsert({
  into: "stray_receipts",
  columns: { key_id: "text", id: "text" },
  conflict: sql`on conflict (key_id, id) do nothing`,
});
