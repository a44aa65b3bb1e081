import type { Actor } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import type { ChannelSecrets } from "../secrets/channel-secrets.ts";
import { sql } from "../sql.ts";
import { keepable, nameCharactersMax } from "../stored-text.ts";

/** What the tables need of the world around them. */
export interface TableContext {
  readonly wallMs: () => number;
  /** Ids that sort by the time they were made at, such as UUIDv7. */
  readonly newId: () => string;
  /** Seals what channels send along; without it that is kept as it is given. */
  readonly channelSecrets?: ChannelSecrets;
  /** Is told of rows that cannot be read and were left out of a list. */
  readonly damaged?: (row: DamagedRow) => void;
}

export interface DamagedRow {
  readonly table: "keys" | "channels" | "prices" | "audit" | "accounts" | "admin_tokens";
  readonly id: string;
  /** The column that makes no sense. */
  readonly column: string;
}

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
  context: TableContext,
  by: Actor,
  work: (transaction: Database, revision: number) => Promise<Changed<T>>,
): Promise<T> {
  return database.transaction(async (transaction) => {
    await transaction.run(sql`update revision set value = value + 1 where id = 1`);
    const { value, audit } = await work(transaction, await readRevision(transaction));
    if (audit !== null) await writeAudit(transaction, context, audit, by);
    return value;
  });
}

export async function readRevision(database: Database): Promise<number> {
  const [row] = await database.all<{ readonly value: number }>(sql`select value from revision where id = 1`);
  return row?.value ?? 0;
}

/** A line of the audit trail, without when and by whom. The detail never holds a secret, nor its digest. */
export interface AuditNote {
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export async function writeAudit(database: Database, context: TableContext, note: AuditNote, by: Actor): Promise<void> {
  const address = by.address === undefined ? null : keepable(by.address, nameCharactersMax);
  await database.run(sql`
    insert into audit (id, at_ms, actor_kind, actor, address, action, subject, detail)
    values (${context.newId()}, ${context.wallMs()}, ${by.kind}, ${keepable(by.name, nameCharactersMax)}, ${address},
      ${keepable(note.action, nameCharactersMax)}, ${keepable(note.subject, nameCharactersMax)}, ${detailText(note.detail)})`);
}

/** Somebody outside may have had a say in it, so it has a bound; above that, only what it was about is kept. */
const detailCharactersMax = 16_384;
const membersMax = 50;

function detailText(detail: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(detail);
  if (text.length <= detailCharactersMax) return text;
  const members = Object.keys(detail).slice(0, membersMax);
  return JSON.stringify({ tooLong: members.map((name) => name.slice(0, nameCharactersMax)) });
}

/** What differs between two descriptions of a thing, with what it was and what it is. */
export function differences(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>> {
  const changed = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return Object.fromEntries(changed.map((name) => [name, { from: before[name] ?? null, to: after[name] }]));
}
