import { accountsRoutes } from "./accounts-routes.ts";
import { auditRoutes } from "./audit-routes.ts";
import { backupsRoutes } from "./backups-routes.ts";
import { channelsRoutes } from "./channels-routes.ts";
import { configurationRoutes } from "./configuration-routes.ts";
import { groupsRoutes } from "./groups-routes.ts";
import { healthRoutes } from "./health-routes.ts";
import { historyRoutes } from "./history-routes.ts";
import { issuersRoutes } from "./issuers-routes.ts";
import { keysRoutes } from "./keys-routes.ts";
import { labRoutes } from "./lab-routes.ts";
import { liveRoutes } from "./live-routes.ts";
import { metricsRoutes } from "./metrics-routes.ts";
import { outcomesRoutes } from "./usage/outcomes-routes.ts";
import { overviewRoutes } from "./overview-routes.ts";
import { playgroundRoutes } from "./playground-routes.ts";
import { pricesRoutes } from "./prices-routes.ts";
import { requestsRoutes } from "./requests-routes.ts";
import type { AdminRoute } from "../route.ts";
import { usageRoutes } from "./usage/usage-routes.ts";
import { webhooksRoutes } from "./webhooks-routes.ts";

/** The resources of the admin API. The listener adds the routes for the login and the OpenAPI document. */
export const resourceRoutes: readonly AdminRoute[] = [
  ...healthRoutes,
  ...metricsRoutes,
  ...overviewRoutes,
  ...liveRoutes,
  ...configurationRoutes,
  ...playgroundRoutes,
  ...labRoutes,
  ...accountsRoutes,
  ...keysRoutes,
  ...groupsRoutes,
  ...issuersRoutes,
  ...channelsRoutes,
  ...pricesRoutes,
  ...usageRoutes,
  ...outcomesRoutes,
  ...requestsRoutes,
  ...auditRoutes,
  ...historyRoutes,
  ...webhooksRoutes,
  ...backupsRoutes,
];
