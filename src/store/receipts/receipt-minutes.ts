import { BulkInsert } from "./bulk-insert.ts";
import { sql } from "../sql.ts";

/**
 * Where the receipts of a key lie. They are kept in the order of time, and an index by key would cost the drain more than all
 * the rest where thousands of keys call in turn. So each hourly sum, which is written in any case, marks the minutes of its
 * hour that have receipts: whoever looks for them reads those minutes.
 */
export class MinuteSet {
  /** A bit for each minute of the first half of the hour. */
  early = 0;
  /** The same of the second half. */
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
 * The minute by its id of a receipt that is counted in the hour that began at `atMs`; null where its id is of another hour. An
 * id is given when a request arrives and a call counts from when it is let in, which is the same moment but for long uploads
 * and clocks that are set.
 */
export function minuteOfHour(id: string, atMs: number): number | null {
  const minute = Math.floor(((timeOfId(id) ?? -1) - atMs) / minuteMs);
  return minute >= 0 && minute < 2 * halfHour ? minute : null;
}

/** When a UUIDv7 was made; null where it is none. Every receipt comes by here, so nothing is made of its parts. */
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

/** Of the small ones only; negative where it is none. */
function hexDigit(code: number): number {
  if (code >= zero && code <= nine) return code - zero;
  return code >= a && code <= f ? code - a + 10 : -1;
}
export const minuteMs = 60_000;

/** The few receipts that no hour leads to. */
export const strayRows = new BulkInsert({
  into: "stray_receipts",
  columns: { key_id: "text", id: "text" },
  conflict: sql`on conflict (key_id, id) do nothing`,
});
