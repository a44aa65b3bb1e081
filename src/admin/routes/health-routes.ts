import { z } from "zod";
import { route, TextResult, type AdminRoute } from "../route.ts";

const part = z.strictObject({ kind: z.string(), ok: z.boolean(), detail: z.string().nullable() });

/** A liveness check for anybody, and the health of the parts for viewers. */
export const healthRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/healthz",
    access: "public",
    summary: "Answers `ok` while the process runs.",
    answer: z.string(),
    text: "text/plain",
    handle: () => new TextResult("text/plain", "ok\n"),
  }),
  route({
    method: "GET",
    path: "/admin/api/health",
    access: "viewer",
    summary: "Shows the health of the gateway and its parts.",
    answer: z.strictObject({
      status: z.enum(["ok", "degraded", "stopping"]),
      url: z.string().describe("Where clients connect, as the gateway listens; a proxy in front may have another address."),
      version: z.string(),
      store: part,
      state: part,
      journal: z.strictObject({ waiting_bytes: z.int() }),
      insecure_transport: z.boolean(),
      certificate: z.strictObject({ expires: z.string(), days_left: z.int() }).nullable(),
    }),
    handle: async ({ services }) => {
      const { status, url, store, state, journal, insecureTransport, certificate } = await services.health();
      return {
        status,
        url,
        version: services.version,
        store: { kind: store.engine, ok: store.ok, detail: store.detail },
        state,
        journal: { waiting_bytes: journal.waitingBytes },
        insecure_transport: insecureTransport,
        certificate:
          certificate === null ? null : { expires: new Date(certificate.expiresMs).toISOString(), days_left: certificate.daysLeft },
      };
    },
  }),
];
