import { sql, type Sql } from "../sql.ts";

/**
 * A pattern with `*` as a condition on the column `model`, with the same answer on every engine: `like` takes capitals for
 * small letters on one and not on the other. Where the pattern has more than one star the condition is only necessary, and
 * the pattern itself has the last word.
 */
export function modelFits(pattern: string): { readonly condition: Sql; readonly exact: boolean } {
  const parts = pattern.split("*");
  const first = parts[0] ?? "";
  if (parts.length === 1) return { condition: sql`model = ${first}`, exact: true };
  const last = parts.at(-1) ?? "";
  // Both engines count characters, not their halves.
  const [before, after] = [Array.from(first).length, Array.from(last).length];
  const begins = before === 0 ? sql`` : sql` and substr(model, 1, cast(${before} as integer)) = ${first}`;
  const ends = after === 0 ? sql`` : sql` and substr(model, length(model) - cast(${after - 1} as integer)) = ${last}`;
  return { condition: sql`length(model) >= ${before + after}${begins}${ends}`, exact: parts.length === 2 };
}
