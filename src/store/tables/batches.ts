import { joinSql, sql, type Sql } from "../sql.ts";

/** Rows in one statement. */
const rowsMax = 256;

/**
 * Rows or values for a list in a statement, in handfuls of a few fixed sizes: every length would be a statement of its own,
 * and the engines keep those they have seen. The last handful is filled up with what it already has, so only a statement that
 * does not mind a row that comes twice can use it.
 */
export function* batches<T>(items: readonly T[], row: (item: T) => Sql): Generator<Sql> {
  for (let at = 0; at < items.length; at += rowsMax) {
    const rows = items.slice(at, at + rowsMax).map(row);
    const size = 2 ** Math.ceil(Math.log2(rows.length));
    yield joinSql([...rows, ...Array.from({ length: size - rows.length }, () => rows[0]!)], sql`, `);
  }
}
