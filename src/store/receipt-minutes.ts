import { Insertion } from "./insertion.ts";
import { sql } from "./sql.ts";

/**
 * Where the receipts of a key lie. They are kept in the order of time, and an index by key would cost the drain more than all
 * the rest where thousands of keys call in turn. So each hourly sum, which is written in any case, marks the minutes of its
 * hour that have receipts: whoever looks for them reads those minutes.
 */
export class Minutes {
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
export function minuteOf(id: string, atMs: number): number | null {
  const minute = Math.floor(((timeOfId(id) ?? -1) - atMs) / minuteMs);
  return minute >= 0 && minute < 2 * halfHour ? minute : null;
}

/** When a UUIDv7 was made; null where it is none. */
export function timeOfId(id: string): number | null {
  if (!uuidv7.test(id)) return null;
  return Number.parseInt(id.slice(0, 8), 16) * 2 ** 16 + Number.parseInt(id.slice(9, 13), 16);
}

const uuidv7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7/;
export const minuteMs = 60_000;

/** The few receipts that no hour leads to. */
export const strayRows = new Insertion({
  into: "stray_receipts",
  columns: { key_id: "text", id: "text" },
  conflict: sql`on conflict (key_id, id) do nothing`,
});
