import { bindingProblem } from "../admin/binding.ts";
import { prepareBootstrap } from "../admin/login/bootstrap.ts";
import type { AdminHandler, AdminHandlerOptions } from "../admin/handler.ts";
import { listenAdmin, type AdminListener } from "../admin/listener.ts";
import type { Services } from "../admin/services.ts";
import { listenProblem } from "../cli/process/listen-problem.ts";
import { configExitCode, StartProblem } from "../cli/process/start-problem.ts";
import type { MetricsSettings, Settings } from "../config/settings.ts";
import type { TrustedProxies } from "../gateway/snapshot.ts";
import { claimPort } from "../cli/process/workers.ts";
import type { ServerTls } from "../net/server/server-tls.ts";
import type { Durable } from "./durable.ts";

/** The open listener of the admin API, and the file with the token for the first account, if there is no account yet. */
export interface AdminServer {
  readonly listener: AdminListener;
  readonly bootstrap: string | null;
}

export interface AdminStartOptions {
  readonly settings: Settings;
  readonly durable: Durable;
  /** Called with the first request, as nobody else needs them. */
  readonly services: () => Promise<Services>;
  /** The token in ADMIN_TOKEN_FILE. */
  readonly token: string | null;
  readonly trustedProxies: () => TrustedProxies | null;
  /** Null for plain HTTP. */
  readonly tls: ServerTls | null;
  readonly onBug: (error: unknown) => void;
}

/** Null if the admin API is off. If it cannot be opened, the gateway does not start. */
export async function openAdmin({
  settings,
  durable,
  services,
  token,
  trustedProxies,
  tls,
  onBug,
}: AdminStartOptions): Promise<AdminServer | null> {
  const { admin, adminNames, adminSecure, dataDir, metrics, signIn } = settings;
  if (admin === null) return null;
  const { storage, masterKey, clock } = durable;
  const problem = bindingProblem({
    host: admin.host,
    accounts: await storage.accounts.count(),
    tokenGiven: token !== null,
    hasProvider: signIn.oidc !== null,
  });
  if (problem !== null) throw new StartProblem(problem, configExitCode);
  // An account that nobody may use is not worth a token that anybody could steal.
  const bootstrap = !signIn.localAccounts
    ? null
    : await prepareBootstrap({
        dataDir,
        accounts: storage.accounts,
        digest: masterKey.adminDigest,
        wallMs: clock.wallMs,
        random: (count) => crypto.getRandomValues(new Uint8Array(count)),
      });
  const bootstrapFile = bootstrap?.path ?? null;
  try {
    // With a certificate the port is shared, and another program on it would not be noticed.
    if (tls !== null) claimPort(admin);
    const handling = {
      host: admin.host,
      onBug,
      hostNames: signIn.oidc === null ? adminNames : [...adminNames, new URL(signIn.oidc.publicUrl).hostname],
      secure: adminSecure,
      operatorToken: token,
      metricsToken: metrics.token,
      bootstrapFile,
    };
    const listener = listenAdmin({
      ...admin,
      handler: async () => loadHandler(metrics, { ...handling, services: await services() }),
      onBug,
      secure: adminSecure,
      trustedProxies,
      tls,
    });
    return { listener, bootstrap: bootstrapFile };
  } catch (error) {
    throw new StartProblem(`The admin API could not start. ${listenProblem(error, admin, "--admin")} To turn it off, use --admin off.`, 1);
  }
}

/** The metrics may be turned off, or open to everybody who reaches the listener. */
async function loadHandler(
  { enabled, public: isPublic }: MetricsSettings,
  handling: Omit<AdminHandlerOptions, "routes">,
): Promise<AdminHandler> {
  const { makeAdminHandler } = await import("../admin/handler.ts");
  const { resourceRoutes } = await import("../admin/routes/routes.ts");
  const { metricsPath } = await import("../admin/routes/metrics-routes.ts");
  const routes = enabled
    ? resourceRoutes.map((route) => (route.path === metricsPath && isPublic ? { ...route, access: "public" as const } : route))
    : resourceRoutes.filter(({ path }) => path !== metricsPath);
  return makeAdminHandler({ ...handling, routes });
}
