import { z } from "zod";
import { readSpan, spanQuery } from "../fields/moment-field.ts";
import { auditEntryView, auditExport, auditFormats, auditPages } from "../../manage/audit-export.ts";
import type { AuditEntry } from "../../gateway/storage.ts";
import { line, moment, nextOf, pageCursor, pageLimit } from "../fields/scalars.ts";
import { AdminError } from "../admin-error.ts";
import { route, TextResult, type AdminRoute } from "../route.ts";

export const auditFilters = {
  action: line(100).optional().describe("Such as `key.create`."),
  subject: line(200).optional().describe("The id or name of what was changed."),
  actor: line(200).optional().describe("The name of who changed it."),
  since: spanQuery.since,
  before: pageCursor.optional(),
};

export const actorAnswer = z.strictObject({
  kind: z.enum(["cli", "admin", "gateway"]),
  name: z.string(),
  address: z.string().nullable(),
  issuer: z.string().optional().describe("The provider that the person signed in with; others have none."),
  subject: z.string().optional().describe("What that provider calls the person. It does not change, and nobody else is called so."),
});

/** The audit log. */
export const auditRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/audit",
    access: "viewer",
    scoped: true,
    summary: "Lists the changes of keys, channels, prices and accounts, newest first.",
    query: z.strictObject({
      ...auditFilters,
      limit: pageLimit,
    }),
    answer: z.strictObject({
      entries: z.array(
        z.strictObject({
          id: z.string(),
          done_at: moment,
          actor: actorAnswer,
          action: z.string(),
          subject: z.string(),
          detail: z.record(z.string(), z.unknown()),
        }),
      ),
      next: z.string().nullable(),
    }),
    handle: async ({ query, services }) => {
      const span = readSpan({ since: query.since }, services.wallMs());
      if (span instanceof AdminError) return span;
      const { action = null, subject = null, actor = null, before = null, limit } = query;
      const entries = await services.reports.audit.list({ action, subject, actor, sinceMs: span.sinceMs, before, limit });
      return { entries: entries.map(auditEntryView), next: nextOf(entries, limit, ({ id }) => id) };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/audit/export",
    access: "viewer",
    scoped: true,
    summary:
      "Exports the same as a file, newest first, up to 10,000 entries or 8 MiB. The header `x-sluice-next`, if there is one, is the `before` of the next part.",
    query: z.strictObject({ format: z.enum(auditFormats).default("jsonl"), ...auditFilters }),
    answer: z.string(),
    text: "application/jsonl",
    handle: async ({ query, services }) => {
      const span = readSpan({ since: query.since }, services.wallMs());
      if (span instanceof AdminError) return span;
      const { action = null, subject = null, actor = null, before = null, format } = query;
      // One more than the answer has: it tells whether there is a next part.
      const filter = { action, subject, actor, sinceMs: span.sinceMs, before, limit: exportedEntriesMax + 1 };
      const parts: string[] = [];
      let bytes = 0;
      let lastId = "";
      let isWhole = true;
      for await (const entry of entriesOf(auditPages(services.reports, filter))) {
        const text = auditExport([auditEntryView(entry)], format, parts.length === 0);
        bytes += Buffer.byteLength(text);
        isWhole = parts.length < exportedEntriesMax && bytes <= exportedBytesMax;
        if (!isWhole) break;
        parts.push(text);
        lastId = entry.id;
      }
      if (parts.length === 0) parts.push(auditExport([], format, true));
      const next: Readonly<Record<string, string>> = isWhole ? {} : { "x-sluice-next": lastId };
      const type = format === "csv" ? "text/csv; charset=utf-8" : "application/jsonl; charset=utf-8";
      return new TextResult(type, parts.join(""), `audit.${format}`, next);
    },
  }),
];

async function* entriesOf(pages: AsyncIterable<readonly AuditEntry[]>): AsyncGenerator<AuditEntry> {
  for await (const page of pages) yield* page;
}

/** The answer is built in memory. One entry is far smaller (`writeAudit`), so that each part has some. */
const exportedEntriesMax = 10_000;
const exportedBytesMax = 8 * 1024 * 1024;
