import type { Actor } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import type { ChannelSecrets } from "../secrets/channel-secrets.ts";
import { sql } from "../sql.ts";
import { storableText, nameCharactersMax } from "../stored-text.ts";

/** What the tables need from their environment. */
export interface TableContext {
  readonly wallMs: () => number;
  /** Creates ids that sort by the time of their creation, such as UUIDv7. */
  readonly newId: () => string;
  /** Encrypts the headers of channels; without it they are stored in plain text. */
  readonly channelSecrets?: ChannelSecrets;
  /** Called for each row that cannot be read and was left out of a list. */
  readonly damaged?: (row: DamagedRow) => void;
}

export interface DamagedRow {
  readonly table: "keys" | "key_groups" | "channels" | "prices" | "audit" | "accounts" | "admin_tokens";
  readonly id: string;
  /** The column that could not be parsed. */
  readonly column: string;
}

/** The result of a change, and its audit entry: null if nothing changed. */
export interface Changed<T> {
  readonly value: T;
  readonly audit: AuditNote | null;
}

/**
 * Runs one change: its work, its audit entry and the new revision are committed together. The revision is raised first, which
 * locks its row until the commit. So changes are serialized, each one sees the one before, and whoever has read a revision
 * never finds an older change later. It is the time, or one more than the last: a standby that takes over without the last changes
 * must not give their revisions to others, which nobody who has read those would notice.
 */
export async function change<T>(
  database: Database,
  context: TableContext,
  by: Actor,
  work: (transaction: Database, revision: number) => Promise<Changed<T>>,
): Promise<T> {
  return database.transaction(async (transaction) => {
    const nowMs = Math.trunc(context.wallMs());
    await transaction.run(sql`update revision set value = case when value < ${nowMs} then ${nowMs} else value + 1 end where id = 1`);
    const { value, audit } = await work(transaction, await readRevision(transaction));
    if (audit !== null) await writeAudit(transaction, context, audit, by);
    return value;
  });
}

export async function readRevision(database: Database): Promise<number> {
  const [row] = await database.all<{ readonly value: number }>(sql`select value from revision where id = 1`);
  return row?.value ?? 0;
}

/** An audit entry without time and actor. The detail must not contain a secret or its digest. */
export interface AuditNote {
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
  /** The id of the group that the change is about. */
  readonly group?: string | null;
}

export async function writeAudit(database: Database, context: TableContext, note: AuditNote, by: Actor): Promise<void> {
  const address = by.address === undefined ? null : storableText(by.address, nameCharactersMax);
  await database.run(sql`
    insert into audit (id, at_ms, actor_kind, actor, address, action, subject, detail, group_id)
    values (${context.newId()}, ${context.wallMs()}, ${by.kind}, ${storableText(by.name, nameCharactersMax)}, ${address},
      ${storableText(note.action, nameCharactersMax)}, ${storableText(note.subject, nameCharactersMax)}, ${detailText(note.detail, by.person)}, ${note.group ?? null})`);
}

/** The member of a stored detail that says who the actor is, besides the name: there is no column for it. */
export const personMember = "@person";

/** Parts of the detail come from outside, so that its size is bounded. If even its short form is too long, its first member names remain. */
const detailCharactersMax = 16_384;
const membersMax = 50;
/** For the settings in a detail: less than it may have, so that the names of those that changed always have room beside their values. */
export const settingsCharactersMax = 8_192;

function detailText(detail: Readonly<Record<string, unknown>>, person: Actor["person"]): string {
  return JSON.stringify({ ...boundedDetail(detail), ...(person === undefined ? {} : { [personMember]: person }) });
}

function boundedDetail(detail: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const short = shortened(detail, detailCharactersMax);
  if (short !== null) return short;
  const members = Object.keys(detail).slice(0, membersMax);
  return { tooLong: members.map((name) => name.slice(0, nameCharactersMax)) };
}

/** The longest values are replaced by the word `changed`, until the others have room; null if they never have. */
export function shortened(values: Readonly<Record<string, unknown>>, charactersMax: number): Readonly<Record<string, unknown>> | null {
  let characters = JSON.stringify(values).length;
  if (characters <= charactersMax) return values;
  const sizes = Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)?.length ?? 0] as const);
  const left = { ...values };
  for (const [name, size] of sizes.toSorted(([, one], [, other]) => other - one)) {
    left[name] = "changed";
    characters += '"changed"'.length - size;
    if (characters <= charactersMax) return left;
  }
  return null;
}

/** The members that differ between two versions of an object, with their old and new values. */
export function differences(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>> {
  const changed = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return Object.fromEntries(changed.map((name) => [name, { from: before[name] ?? null, to: after[name] }]));
}
