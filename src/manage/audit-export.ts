import type { AuditEntry, AuditQuery, Storage } from "../gateway/storage.ts";
import { csvOf } from "../usage/csv.ts";
import { isoMoment } from "../usage/time-text.ts";

export const auditFormats = ["jsonl", "csv"] as const;
export type AuditFormat = (typeof auditFormats)[number];

/** An entry under the field names of the admin API. */
export function auditEntryView({ id, atMs, actor: { kind, name, address, person }, action, subject, detail }: AuditEntry) {
  const actor = { kind, name, address: address ?? null, ...person };
  return { id, done_at: isoMoment(atMs), actor, action, subject, detail: { ...detail } };
}

export type AuditEntryView = ReturnType<typeof auditEntryView>;

/** Entries, newest first, in pages. */
export async function* auditPages({ audit }: Pick<Storage, "audit">, query: AuditQuery): AsyncGenerator<readonly AuditEntry[]> {
  let { before } = query;
  for (let left = query.limit; left > 0;) {
    const page = await audit.list({ ...query, before, limit: Math.min(pageEntries, left) });
    if (page.length === 0) return;
    yield page;
    left -= page.length;
    before = page.at(-1)?.id ?? before;
  }
}

const pageEntries = 200;

/** Part of a file with entries; the first part of a table has its headings. */
export function auditExport(entries: readonly AuditEntryView[], format: AuditFormat, isFirst: boolean): string {
  if (format === "jsonl") return entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
  const table = csvOf(headings, entries.map(csvRow));
  return isFirst ? table : table.slice(table.indexOf("\n") + 1);
}

/** What is added comes last, for programs that count columns. */
const headings = ["id", "done_at", "actor_kind", "actor", "address", "action", "subject", "detail", "actor_issuer", "actor_subject"];

function csvRow({ id, done_at, actor, action, subject, detail }: AuditEntryView): Readonly<Record<string, string | null>> {
  return {
    id,
    done_at,
    actor_kind: actor.kind,
    actor: actor.name,
    address: actor.address,
    action,
    subject,
    detail: JSON.stringify(detail),
    actor_issuer: actor.issuer ?? null,
    actor_subject: actor.subject ?? null,
  };
}
