import { sql, type Sql } from "../sql.ts";

/** Receipts say why an answer may be less than its client expects, though nobody failed. */
export const receiptWarnings: readonly Sql[] = [sql`alter table receipts add column warning text`];
