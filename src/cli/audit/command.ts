import type { AuditEntry } from "../../gateway/storage.ts";
import { isoMoment, parsePastMoment } from "../../usage/time-text.ts";
import type { AuditRequest } from "./arguments.ts";
import { keyByIdOrName } from "../../manage/key-search.ts";
import { json, localMinute } from "../shown-text.ts";
import type { OpenStore, CommandContext } from "../command-context.ts";
import { table } from "../table.ts";

export async function runAudit(request: AuditRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { action, actor, since, limit } = request;
  const sinceMs = since === null ? null : parsePastMoment(since, context.wallMs());
  // The audit log has the ids of keys, and people use their names.
  const subject = request.subject === null ? null : ((await keyByIdOrName(store, request.subject))?.key.id ?? request.subject);
  const entries: AuditEntry[] = [];
  while (entries.length < limit) {
    const before = entries.at(-1)?.id ?? null;
    const page = await store.storage.audit.list({
      action,
      subject,
      actor,
      sinceMs,
      before,
      limit: Math.min(pageMax, limit - entries.length),
    });
    entries.push(...page);
    if (page.length === 0) break;
  }
  if (request.json) context.terminal.print(json(entries.map(entryJson)));
  else if (entries.length === 0) context.terminal.say("No changes are recorded.");
  else context.terminal.print(auditTable(entries));
}

const pageMax = 200;

function entryJson({ id, atMs, actor: { kind, name, address }, action, subject, detail }: AuditEntry): Readonly<Record<string, unknown>> {
  return { id, done_at: isoMoment(atMs), actor: { kind, name, address: address ?? null }, action, subject, detail };
}

function auditTable(entries: readonly AuditEntry[]): string {
  return table<AuditEntry>(
    [
      { title: "AT", cell: ({ atMs }) => localMinute(atMs) },
      { title: "BY", cell: ({ actor: { kind, name, address } }) => `${kind} ${name}${address === undefined ? "" : ` (${address})`}` },
      { title: "ACTION", cell: ({ action }) => action },
      { title: "SUBJECT", cell: ({ subject }) => subject },
      { title: "DETAIL", cell: ({ detail }) => clipped(JSON.stringify(detail)) },
    ],
    entries,
  );
}

const detailCharactersMax = 160;

function clipped(text: string): string {
  if (text === "{}") return "";
  return text.length <= detailCharactersMax ? text : `${text.slice(0, detailCharactersMax)}…`;
}
