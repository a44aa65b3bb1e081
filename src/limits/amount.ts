/**
 * A whole amount that can be counted, made of a figure that may come from anywhere: rounded up, never below nothing, never
 * beyond what stays exact in a sum of many. What is no figure at all becomes `otherwise`.
 */
export function wholeAmount(figure: number, otherwise: number): number {
  if (!(figure >= 0)) return otherwise;
  return Math.min(Math.ceil(figure), amountMax);
}

/** A million of these are still exact, whatever is counted: tokens, milliseconds, characters. */
export const amountMax = 1_000_000_000;
