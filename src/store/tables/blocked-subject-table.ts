import { StorageError, type Actor, type BlockedSubject, type BlockedSubjectStorage } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";
import { checkName, checkText } from "../stored-text.ts";
import { change, type TableContext } from "./change.ts";

export class BlockedSubjectTable implements BlockedSubjectStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async list(): Promise<readonly BlockedSubject[]> {
    const rows = await this.database.all<BlockedRow>(
      sql`select issuer, subject, created_ms from blocked_subjects order by created_ms, issuer, subject limit ${blockedMax}`,
    );
    return rows.map((row) => ({ issuer: row.issuer, subject: row.subject === "" ? null : row.subject, createdMs: row.created_ms }));
  }

  async block(issuer: string, subject: string | null, by: Actor): Promise<void> {
    checkName("The name of an issuer", issuer);
    checkText("A subject", subject, subjectCharactersMax);
    if (subject === "") throw new StorageError("invalid", "A subject is not empty.");
    await change(this.database, this.context, by, async (transaction) => {
      const [row] = await transaction.all<{ readonly count: number }>(sql`select count(*) as count from blocked_subjects`);
      if ((row?.count ?? 0) >= blockedMax) {
        throw new StorageError("conflict", `There are ${blockedMax} blocked subjects already: unblock some, or block their issuer.`);
      }
      const added = await transaction.run(sql`
        insert into blocked_subjects (issuer, subject, created_ms) values (${issuer}, ${subject ?? ""}, ${this.context.wallMs()})
        on conflict (issuer, subject) do nothing`);
      return { value: null, audit: added === 0 ? null : { action: "issuer.block", subject: issuer, detail: { subject } } };
    });
  }

  async unblock(issuer: string, subject: string | null, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction) => {
      const removed = await transaction.run(sql`delete from blocked_subjects where issuer = ${issuer} and subject = ${subject ?? ""}`);
      if (removed === 0) throw new StorageError("missing", "This is not blocked.");
      return { value: null, audit: { action: "issuer.unblock", subject: issuer, detail: { subject } } };
    });
  }
}

interface BlockedRow {
  readonly issuer: string;
  /** Empty for all subjects. */
  readonly subject: string;
  readonly created_ms: number;
}

/** Every process holds all of them in memory. */
const blockedMax = 10_000;
const subjectCharactersMax = 1024;
