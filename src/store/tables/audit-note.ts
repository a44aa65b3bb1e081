import type { Actor } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import { sql } from "../sql.ts";
import { keepable, nameCharactersMax } from "../stored-text.ts";
import type { TableNeeds } from "./table-needs.ts";

/** A line of the audit trail, without when and by whom. The detail never holds a secret, nor its digest. */
export interface AuditNote {
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export async function writeAudit(database: Database, needs: TableNeeds, note: AuditNote, by: Actor): Promise<void> {
  const address = by.address === undefined ? null : keepable(by.address, nameCharactersMax);
  await database.run(sql`
    insert into audit (id, at_ms, actor_kind, actor, address, action, subject, detail)
    values (${needs.newId()}, ${needs.wallMs()}, ${by.kind}, ${keepable(by.name, nameCharactersMax)}, ${address},
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
