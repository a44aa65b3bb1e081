import type { Actor } from "../../gateway/storage.ts";
import { writeAudit, type AuditNote } from "./audit-note.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";
import type { TableNeeds } from "./table-needs.ts";

/** What came of a change, and what the audit trail says of it: null where nothing changed after all. */
export interface Changed<T> {
  readonly value: T;
  readonly audit: AuditNote | null;
}

/**
 * One change: what it does, its line in the audit trail and the new revision are kept together or not at all. The revision is
 * raised first: whoever raised it keeps its row until the end, so changes come one after the other, each sees what the one
 * before did, and nobody who has read a revision can find an older change later.
 */
export async function change<T>(
  database: Database,
  needs: TableNeeds,
  by: Actor,
  work: (transaction: Database, revision: number) => Promise<Changed<T>>,
): Promise<T> {
  return database.transaction(async (transaction) => {
    await transaction.run(sql`update revision set value = value + 1 where id = 1`);
    const { value, audit } = await work(transaction, await readRevision(transaction));
    if (audit !== null) await writeAudit(transaction, needs, audit, by);
    return value;
  });
}

export async function readRevision(database: Database): Promise<number> {
  const [row] = await database.all<{ readonly value: number }>(sql`select value from revision where id = 1`);
  return row?.value ?? 0;
}
