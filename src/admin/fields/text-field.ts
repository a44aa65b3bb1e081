import { z } from "zod";

/** One line of text that can be kept, looked for and shown: no control characters, no halves of characters. */
export function line(charactersMax: number): z.ZodString {
  return z
    .string()
    .trim()
    .min(1, "must not be empty")
    .max(charactersMax, `must have at most ${charactersMax} characters`)
    .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), "must not hold line breaks or other control characters");
}

/** Text of several lines. */
export function prose(charactersMax: number): z.ZodString {
  return z
    .string()
    .max(charactersMax, `must have at most ${charactersMax} characters`)
    .refine((text) => text.isWellFormed() && !/[^\P{Cc}\n\r\t]/u.test(text), "must not hold control characters");
}
