import type { AuditEntry } from "../../gateway/storage.ts";
import { auditEntryView, auditExport, auditPages } from "../../manage/audit-export.ts";
import { parsePastMoment } from "../../usage/time-text.ts";
import type { AuditRequest } from "./arguments.ts";
import { keyByIdOrName } from "../../manage/key-search.ts";
import { json, localMinute, safeJson } from "../shown-text.ts";
import type { OpenStore, CommandContext } from "../command-context.ts";
import { table } from "../table.ts";

export async function runAudit(request: AuditRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { action, actor, since, format } = request;
  const sinceMs = since === null ? null : parsePastMoment(since, context.wallMs());
  // The audit log has the ids of keys, and people use their names.
  const subject = request.subject === null ? null : ((await keyByIdOrName(store, request.subject))?.key.id ?? request.subject);
  const limit = request.limit ?? (format === null ? shownMax : Number.MAX_SAFE_INTEGER);
  const pages = auditPages(store.storage, { action, subject, actor, sinceMs, before: null, limit });
  if (format !== null) {
    // Printed page by page: an audit log is kept forever, and may not fit into memory.
    let isFirst = true;
    for await (const page of pages) {
      const text = auditExport(page, format, isFirst).replace(/\r?\n$/, "");
      context.terminal.print(format === "jsonl" ? safeJson(text) : text);
      isFirst = false;
    }
    return;
  }
  const entries: AuditEntry[] = [];
  for await (const page of pages) entries.push(...page);
  if (request.json) context.terminal.print(json(entries.map(auditEntryView)));
  else if (entries.length === 0) context.terminal.say("No changes are recorded.");
  else context.terminal.print(auditTable(entries));
}

const shownMax = 100;

function auditTable(entries: readonly AuditEntry[]): string {
  return table<AuditEntry>(
    [
      { title: "AT", cell: ({ atMs }) => localMinute(atMs) },
      { title: "BY", cell: ({ actor: { kind, name, address } }) => `${kind} ${name}${address === undefined ? "" : ` (${address})`}` },
      { title: "ACTION", cell: ({ action }) => action },
      { title: "SUBJECT", cell: ({ subject }) => subject },
      { title: "ID", cell: ({ id }) => id },
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
