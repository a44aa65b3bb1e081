import type { Actor, AuditEntry, AuditQuery, AuditStorage, ConfigurationParts, ProvidedPerson } from "../../gateway/storage.ts";
import { isJsonObject } from "../../operations/json.ts";
import { personMember, writeAudit, type TableContext } from "./change.ts";
import { configurationChanges, partsFrom, storedParts } from "./configuration-audit.ts";
import type { Database } from "../database.ts";
import { joinSql, sql, type Sql } from "../sql.ts";
import { parsedObject } from "../stored-json.ts";
import { isValidName, pageRows } from "../stored-text.ts";
import { isOneOf } from "../text-list.ts";

export class AuditTable implements AuditStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async list({ action, subject, actor, sinceMs, groups, before, limit }: AuditQuery): Promise<readonly AuditEntry[]> {
    const where: Sql[] = [sql`1 = 1`];
    if (action !== null) where.push(sql`action = ${action}`);
    if (subject !== null) where.push(sql`subject = ${subject}`);
    if (actor !== null) where.push(sql`actor = ${actor}`);
    if (sinceMs !== null) where.push(sql`at_ms >= ${sinceMs}`);
    if (groups !== undefined) where.push(isOneOf(sql`group_id`, groups, this.database.engine));
    if (before !== null) where.push(sql`id < ${before}`);
    const rows = await this.database.all<AuditRow>(sql`
      select id, at_ms, actor_kind, actor, address, action, subject, detail from audit
      where ${joinSql(where, sql` and `)} order by id desc limit ${pageRows(limit)}`);
    return rows.map((row) => this.#entry(row));
  }

  async get(id: string, groups?: readonly string[]): Promise<AuditEntry | null> {
    const among = groups === undefined ? sql`1 = 1` : isOneOf(sql`group_id`, groups, this.database.engine);
    const [row] = isValidName(id)
      ? await this.database.all<AuditRow>(sql`
          select id, at_ms, actor_kind, actor, address, action, subject, detail from audit where id = ${id} and ${among}`)
      : [];
    return row === undefined ? null : this.#entry(row);
  }

  async note(action: string, subject: string, detail: AuditEntry["detail"], by: Actor, group?: string): Promise<void> {
    await writeAudit(this.database, this.context, { action, subject, detail, group: group ?? null }, by);
  }

  async configured(parts: ConfigurationParts, before: ConfigurationParts | null, by: Actor): Promise<void> {
    const text = storedParts(parts);
    await this.database.transaction(async (transaction) => {
      // The row that every change locks first: of several processes, the first records it.
      await transaction.run(sql`update revision set value = value where id = 1`);
      const [row] = await transaction.all<{ readonly value: string }>(sql`select value from settings where name = ${configurationName}`);
      if (row?.value === text) return;
      const stored = partsFrom(row?.value);
      const detail = stored === null ? {} : configurationChanges({ stored, before }, parts);
      if (stored !== null && Object.keys(detail).length === 0) return;
      await transaction.run(sql`
        insert into settings (name, value) values (${configurationName}, ${text})
        on conflict (name) do update set value = excluded.value`);
      if (stored === null) return;
      await writeAudit(transaction, this.context, { action: "config.reload", subject: "configuration file", detail }, by);
    });
  }

  /** Damaged rows are listed too, marked as damaged: an audit log must not lose entries. */
  #entry(row: AuditRow): AuditEntry {
    const kind = actorKinds.find((known) => known === row.actor_kind);
    const stored = parsedObject(row.detail);
    if (kind === undefined) this.context.damaged?.({ table: "audit", id: row.id, column: "actor_kind" });
    if (stored === null) this.context.damaged?.({ table: "audit", id: row.id, column: "detail" });
    const { [personMember]: who, ...detail } = stored ?? { damaged: true };
    const person = personFrom(who);
    return {
      id: row.id,
      atMs: row.at_ms,
      actor: {
        kind: kind ?? "gateway",
        name: row.actor,
        ...(row.address === null ? {} : { address: row.address }),
        ...(person === null ? {} : { person }),
      },
      action: row.action,
      subject: row.subject,
      detail,
    };
  }
}

const configurationName = "configuration";

function personFrom(value: unknown): ProvidedPerson | null {
  if (!isJsonObject(value)) return null;
  const { issuer, subject } = value;
  return typeof issuer === "string" && typeof subject === "string" ? { issuer, subject } : null;
}

interface AuditRow {
  readonly id: string;
  readonly at_ms: number;
  readonly actor_kind: string;
  readonly actor: string;
  readonly address: string | null;
  readonly action: string;
  readonly subject: string;
  readonly detail: string;
}

const actorKinds: readonly Actor["kind"][] = ["cli", "admin", "gateway"];
