import { auditExport, type AuditEntryView } from "../../manage/audit-export.ts";
import type { AuditRequest } from "./arguments.ts";
import { isoMinute, json, safeJson } from "../shown-text.ts";
import type { CommandSurroundings } from "../command-context.ts";
import type { Management } from "../management/management.ts";
import { table } from "../table.ts";

export async function runAudit(request: AuditRequest, management: Management, context: CommandSurroundings): Promise<void> {
  const { action, actor, since, format } = request;
  // The audit log has the ids of keys, and people use their names.
  const subject = request.subject === null ? null : ((await management.key(request.subject))?.id ?? request.subject);
  const limit = request.limit ?? (format === null ? shownMax : Number.MAX_SAFE_INTEGER);
  const pages = management.audit({ action, subject, actor, since, limit });
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
  const entries: AuditEntryView[] = [];
  for await (const page of pages) entries.push(...page);
  if (request.json) context.terminal.print(json(entries));
  else if (entries.length === 0) context.terminal.say("No changes are recorded.");
  else context.terminal.print(auditTable(entries));
}

const shownMax = 100;

function auditTable(entries: readonly AuditEntryView[]): string {
  return table<AuditEntryView>(
    [
      { title: "AT", cell: ({ done_at }) => isoMinute(done_at) },
      { title: "BY", cell: ({ actor }) => actorText(actor) },
      { title: "ACTION", cell: ({ action }) => action },
      { title: "SUBJECT", cell: ({ subject }) => subject },
      { title: "ID", cell: ({ id }) => id },
      { title: "DETAIL", cell: ({ detail }) => clipped(JSON.stringify(detail)) },
    ],
    entries,
  );
}

/** People of a provider may change their names: what the provider calls a person stays. */
function actorText({ kind, name, address, issuer, subject }: AuditEntryView["actor"]): string {
  const more = [...(subject === undefined ? [] : [`${subject} of ${issuer ?? ""}`]), ...(address === null ? [] : [address])];
  return `${kind} ${name}${more.length === 0 ? "" : ` (${more.join(", ")})`}`;
}

const detailCharactersMax = 160;

function clipped(text: string): string {
  if (text === "{}") return "";
  return text.length <= detailCharactersMax ? text : `${text.slice(0, detailCharactersMax)}…`;
}
