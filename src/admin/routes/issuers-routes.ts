import { z } from "zod";
import { blockedView, blockSubject, unblockSubject } from "../../manage/blocked-subjects.ts";
import { adminErrorOf } from "../admin-error.ts";
import { line, moment } from "../fields/scalars.ts";
import { route, type AdminRoute } from "../route.ts";

const blocked = z.strictObject({ issuer: z.string(), subject: z.string().nullable(), blocked_at: moment });
/** Null, or left out: all subjects of the issuer. */
const body = z.strictObject({ subject: line(1024).nullable().default(null) });
const answer = z.strictObject({ issuer: z.string(), subject: z.string().nullable(), blocked: z.boolean() });

/** Tokens of issuers, which clients send in place of keys. */
export const issuersRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/issuers/blocked",
    access: "viewer",
    summary: "Lists the subjects and issuers whose tokens are refused.",
    answer: z.strictObject({ blocked: z.array(blocked) }),
    handle: async ({ services }) => ({ blocked: (await services.storage.blockedSubjects.list()).map(blockedView) }),
  }),
  route({
    method: "POST",
    path: "/admin/api/issuers/{name}/block",
    access: "admin",
    summary: "Refuses the tokens of a subject, or all tokens of the issuer, and ends their running calls.",
    body,
    answer,
    handle: async ({ params: { name }, body: { subject }, services, actor }) => {
      const problem = await blockSubject(services, name, subject, actor);
      return problem === null ? { issuer: name, subject, blocked: true } : adminErrorOf(problem);
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/issuers/{name}/unblock",
    access: "admin",
    summary: "Accepts the tokens of a blocked subject or issuer again.",
    body,
    answer,
    handle: async ({ params: { name }, body: { subject }, services, actor }) => {
      await unblockSubject(services, name, subject, actor);
      return { issuer: name, subject, blocked: false };
    },
  }),
];
