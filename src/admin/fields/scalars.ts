import { z } from "zod";
import { roles } from "../../gateway/storage.ts";
import { nanosOf } from "../../usage/dollars.ts";
import { accountNamePattern } from "../../manage/accounts.ts";

/** One line of text, without control characters and unpaired surrogates. */
export function line(charactersMax: number): z.ZodString {
  return z
    .string()
    .trim()
    .min(1, "must not be empty")
    .max(charactersMax, `must have at most ${charactersMax} characters`)
    .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), "must not contain line breaks or other control characters");
}

/** Text of several lines. */
export function prose(charactersMax: number): z.ZodString {
  return z
    .string()
    .max(charactersMax, `must have at most ${charactersMax} characters`)
    .refine((text) => text.isWellFormed() && !/[^\P{Cc}\n\r\t]/u.test(text), "must not contain control characters");
}

/** An amount of US dollars as a number or a decimal string, parsed exactly into billionths: 0.1 is a tenth. */
export function dollarsField(nanosMax: number) {
  return z.union([z.number(), z.string()]).transform((dollars, context) => {
    const nanos = nanosOf(dollars);
    if (nanos !== null && nanos <= nanosMax) return nanos;
    context.addIssue({ code: "custom", message: `must be an amount of dollars, such as 0.15, of at most ${nanosMax / 1e9}` });
    return z.NEVER;
  });
}

export const pageRowsMax = 200;

/** How many rows a page has. */
export const pageLimit = z.coerce.number().int().min(1).max(pageRowsMax).default(50);

/** Where the next page begins: the `next` of the previous page. */
export const pageCursor = z
  .string()
  .min(1)
  .max(256)
  .refine((text) => !text.includes("\0"), "must be the `next` of the previous page");

/** The cursor of the next page; null at the end. A full page may be followed by an empty one. */
export function nextOf<Row>(rows: readonly Row[], limit: number, cursorOf: (last: Row) => string): string | null {
  const last = rows.at(-1);
  return last === undefined || rows.length < limit ? null : cursorOf(last);
}

/** How the admin API shows a moment: ISO 8601 in UTC, in fields called `…_at`. */
export const moment = z.iso.datetime();

export const accountName = z
  .string()
  .trim()
  .toLowerCase()
  .regex(accountNamePattern, "must be 1 to 64 letters, digits and . _ @ + -, beginning with a letter or digit");

export const role = z.enum(roles);

/** The rules for passwords are checked in `passwordProblem`, which also knows the name. */
export const password = z.string().min(1).max(4096);
