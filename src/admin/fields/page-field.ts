import { z } from "zod";

export const pageRowsMax = 200;

/** How many of a list come at once. */
export const pageLimit = z.coerce.number().int().min(1).max(pageRowsMax).default(50);

/** Where a list goes on: what the page before gave as `next`. */
export const pageCursor = z
  .string()
  .min(1)
  .max(256)
  .refine((text) => !text.includes("\0"), "must be the `next` of the page before");

/** What to ask for the next page with; null at the end. A page that is full may be followed by an empty one. */
export function nextOf<Row>(rows: readonly Row[], limit: number, cursorOf: (last: Row) => string): string | null {
  const last = rows.at(-1);
  return last === undefined || rows.length < limit ? null : cursorOf(last);
}
