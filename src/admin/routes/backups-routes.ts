import { z } from "zod";
import { readBackup, removeBackup, startBackup } from "../../manage/backup.ts";
import { ManageError } from "../../manage/error.ts";
import { isoMoment } from "../../usage/time-text.ts";
import { adminErrorOf } from "../admin-error.ts";
import { moment } from "../fields/scalars.ts";
import { FileResult, route, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";

export const backupsAnswer = z.strictObject({
  folder: z.string().describe("Where they are, on the machine of the gateway."),
  master_key: z.string().describe("Where the master key is, without which none of them can be used. They do not contain it."),
  impossible: z.string().nullable().describe("Why this gateway makes no backups, and what to do instead."),
  instead: z
    .strictObject({ backup: z.string(), restore: z.string(), notes: z.array(z.string()) })
    .nullable()
    .describe("The commands of a shell that do it instead, without the password of the store, and what has to be known about them."),
  running: z
    .strictObject({ doing: z.enum(["copying", "checking", "encrypting"]), done_bytes: z.int(), total_bytes: z.int() })
    .nullable()
    .describe("How far the backup is that is being made."),
  failure: z.string().nullable().describe("Why the last one could not be made."),
  backups: z.array(z.strictObject({ name: z.string(), bytes: z.int(), made_at: moment })),
});

/** Backups that the gateway makes and keeps. They are encrypted with the master key. */
export const backupsRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/backups",
    access: "admin",
    summary: "Lists the backups that this gateway has made, newest first.",
    answer: backupsAnswer,
    handle: ({ services }) => view(services),
  }),
  route({
    method: "POST",
    path: "/admin/api/backups",
    access: "admin",
    summary: "Begins to make a backup of the store while the gateway runs. The list shows how far it is.",
    body: z.strictObject({}),
    answer: backupsAnswer,
    status: 202,
    handle: async ({ services, actor }) => {
      const started = await startBackup(services, actor);
      return started instanceof ManageError ? adminErrorOf(started) : view(services);
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/backups/{name}",
    access: "admin",
    summary: "Downloads a backup, for `sluice restore`.",
    answer: z.string(),
    text: "application/octet-stream",
    handle: async ({ params: { name }, services, actor }) => {
      const content = await readBackup(services, name, actor);
      return content instanceof ManageError ? adminErrorOf(content) : new FileResult(content, name);
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/backups/{name}",
    access: "admin",
    summary: "Deletes a backup.",
    answer: z.strictObject({ removed: z.string() }),
    handle: async ({ params: { name }, services, actor }) => {
      const problem = await removeBackup(services, name, actor);
      return problem === null ? { removed: name } : adminErrorOf(problem);
    },
  }),
];

function view({ backups }: Services): z.output<typeof backupsAnswer> {
  const { running, failure } = backups.state();
  return {
    folder: backups.folder,
    master_key: backups.masterKeyPlace,
    impossible: backups.impossible,
    instead: backups.instead === null ? null : { ...backups.instead, notes: [...backups.instead.notes] },
    running: running === null ? null : { doing: running.doing, done_bytes: running.doneBytes, total_bytes: running.totalBytes },
    failure,
    backups: backups.list().map(({ name, bytes, madeMs }) => ({ name, bytes, made_at: isoMoment(Math.round(madeMs)) })),
  };
}
