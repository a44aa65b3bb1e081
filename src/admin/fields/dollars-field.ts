import { z } from "zod";
import { nanosOf } from "../../usage/dollars.ts";

/** An amount of US dollars, as a number or as decimal text, which becomes whole billionths. Nothing is lost on the way: 0.1 is a tenth. */
export function dollarsField(nanosMax: number) {
  return z.union([z.number(), z.string()]).transform((dollars, context) => {
    const nanos = nanosOf(dollars);
    if (nanos !== null && nanos <= nanosMax) return nanos;
    context.addIssue({ code: "custom", message: `must be an amount of dollars, such as 0.15, of at most ${nanosMax / 1e9}` });
    return z.NEVER;
  });
}
