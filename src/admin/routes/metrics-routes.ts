import { z } from "zod";
import { route, TextResult, type AdminRoute } from "../route.ts";

/** The path is the one that scrapers ask for by default. */
export const metricsPath = "/metrics";

export const metricsRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: metricsPath,
    access: "viewer",
    summary: "Shows metrics in the text format of Prometheus. The setting `metrics` says who may read them.",
    answer: z.string(),
    text: "text/plain",
    handle: async ({ services }) => new TextResult("text/plain; version=0.0.4; charset=utf-8", await services.metrics()),
  }),
];
