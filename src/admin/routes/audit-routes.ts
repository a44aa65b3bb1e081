import { z } from "zod";
import { readSpan, spanQuery } from "../fields/moment-field.ts";
import { isoMoment } from "../../usage/time-text.ts";
import { line, moment, nextOf, pageCursor, pageLimit } from "../fields/scalars.ts";
import { AdminError } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";

/** The audit log. */
export const auditRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/audit",
    access: "viewer",
    summary: "Lists the changes of keys, channels, prices and accounts, newest first.",
    query: z.strictObject({
      action: line(100).optional().describe("Such as `key.create`."),
      subject: line(200).optional().describe("The id or name of what was changed."),
      actor: line(200).optional().describe("The name of who changed it."),
      since: spanQuery.since,
      before: pageCursor.optional(),
      limit: pageLimit,
    }),
    answer: z.strictObject({
      entries: z.array(
        z.strictObject({
          id: z.string(),
          done_at: moment,
          actor: z.strictObject({ kind: z.enum(["cli", "admin", "gateway"]), name: z.string(), address: z.string().nullable() }),
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
      return {
        entries: entries.map((entry) => ({
          id: entry.id,
          done_at: isoMoment(entry.atMs),
          actor: { kind: entry.actor.kind, name: entry.actor.name, address: entry.actor.address ?? null },
          action: entry.action,
          subject: entry.subject,
          detail: { ...entry.detail },
        })),
        next: nextOf(entries, limit, ({ id }) => id),
      };
    },
  }),
];
