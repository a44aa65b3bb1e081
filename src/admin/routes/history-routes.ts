import { z } from "zod";
import { ManageError } from "../../manage/error.ts";
import { historyEntryView, subjectNames } from "../../manage/history/history-view.ts";
import { undoChange } from "../../manage/history/undo.ts";
import { readSpan } from "../fields/moment-field.ts";
import { moment, nextOf, pageLimit } from "../fields/scalars.ts";
import { AdminError, adminErrorOf, notFound } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";
import { actorAnswer, auditFilters } from "./audit-routes.ts";

export const historyAnswer = z.strictObject({
  id: z.string(),
  done_at: moment,
  actor: actorAnswer,
  action: z.string(),
  subject: z.string(),
  subject_name: z.string().nullable().describe("The name of a key or a group, whose subject is its id."),
  changes: z.array(
    z.strictObject({
      field: z.string(),
      from: z.unknown(),
      to: z.unknown(),
      hidden: z.boolean().describe("Only the fact is recorded: the values are secret, or may contain anything."),
    }),
  ),
  undo: z.strictObject({
    possible: z.boolean(),
    words: z.string().describe("What undoing it does, or why it cannot be undone."),
    remarks: z.array(z.string()).describe("What stays as it is, because the log does not have it."),
    needs_secrets: z.boolean().describe("The secrets of the channel have to be given again: none are kept."),
  }),
});

/** What was changed, from what to what, and the way back. */
export const historyRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/history",
    access: "viewer",
    scoped: true,
    summary: "Lists the entries of the audit log with what each changed, from what to what, and whether it can be undone.",
    query: z.strictObject({ ...auditFilters, limit: pageLimit }),
    answer: z.strictObject({ entries: z.array(historyAnswer), next: z.string().nullable() }),
    handle: async ({ query, services, caller }) => {
      const span = readSpan({ since: query.since }, services.wallMs());
      if (span instanceof AdminError) return span;
      const { action = null, subject = null, actor = null, before = null, limit } = query;
      const entries = await services.reports.audit.list({ action, subject, actor, sinceMs: span.sinceMs, before, limit });
      const names = await subjectNames(services, entries);
      return {
        entries: entries.map((entry) => historyEntryView(entry, names.get(entry.subject) ?? null, "group" in caller ? caller.group : null)),
        next: nextOf(entries, limit, ({ id }) => id),
      };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/history/{id}",
    access: "viewer",
    scoped: true,
    summary: "Shows one change, by the id of its entry in the audit log, and whether it can be undone.",
    answer: historyAnswer,
    handle: async ({ params: { id }, services, caller }) => {
      const entry = await services.reports.audit.get(id);
      if (entry === null) return notFound("entry in the audit log");
      const name = (await subjectNames(services, [entry])).get(entry.subject) ?? null;
      return historyEntryView(entry, name, "group" in caller ? caller.group : null);
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/audit/{id}/undo",
    access: "admin",
    scoped: true,
    summary:
      "Takes a change back. If what it changed has changed again since, or it cannot be undone, you get 409 with the reason, and nothing changes.",
    body: z.strictObject({
      secrets: z
        .array(z.string().min(1).max(8192))
        .min(1)
        .max(100)
        .optional()
        .describe("The secrets of the channel, where `needs_secrets` says so."),
    }),
    answer: z.strictObject({ undone: z.string(), action: z.string(), subject: z.string() }),
    handle: async ({ params: { id }, body, services, actor }) => {
      const undone = await undoChange(services, id, body.secrets ?? null, actor);
      if (undone instanceof ManageError) return adminErrorOf(undone);
      return { undone: id, action: undone.entry.action, subject: undone.entry.subject };
    },
  }),
];
