import { bindingProblem } from "../admin/binding.ts";
import { prepareBootstrap } from "../admin/login/bootstrap.ts";
import { listenAdmin, type AdminListener } from "../admin/listener.ts";
import { resourceRoutes } from "../admin/routes/routes.ts";
import type { Services } from "../admin/services.ts";
import { listenProblem } from "../cli/process/listen-problem.ts";
import { configExitCode, StartProblem } from "../cli/process/start-problem.ts";
import type { Settings } from "../config/settings.ts";
import type { Durable } from "./durable.ts";

/** The admin API's door, open, and the file that holds the token for the first account, where there is none yet. */
export interface StartedAdmin {
  readonly listener: AdminListener;
  readonly bootstrap: string | null;
}

export interface AdminStartOptions {
  readonly settings: Settings;
  readonly durable: Durable;
  readonly services: Services;
  /** Opens the door, where the operator chose one. */
  readonly token: string | null;
  readonly onBug: (error: unknown) => void;
}

/** Null where nobody wants it. What keeps it from opening keeps the gateway from starting. */
export async function openAdmin({ settings, durable, services, token, onBug }: AdminStartOptions): Promise<StartedAdmin | null> {
  const { admin, adminNames, adminSecure, dataDir } = settings;
  if (admin === null) return null;
  const { storage, masterKey, clock } = durable;
  const barred = bindingProblem({ host: admin.host, accounts: await storage.accounts.count(), tokenGiven: token !== null });
  if (barred !== null) throw new StartProblem(barred, configExitCode);
  const bootstrap = await prepareBootstrap({
    dataDir,
    accounts: storage.accounts,
    digest: masterKey.adminDigest,
    wallMs: clock.wallMs,
    random: (count) => crypto.getRandomValues(new Uint8Array(count)),
  });
  const bootstrapFile = bootstrap?.path ?? null;
  try {
    const listener = listenAdmin({
      ...admin,
      services,
      routes: resourceRoutes,
      onBug,
      hostNames: adminNames,
      secure: adminSecure,
      operatorToken: token,
      bootstrapFile,
    });
    return { listener, bootstrap: bootstrapFile };
  } catch (error) {
    throw new StartProblem(`The admin API could not start. ${listenProblem(error, admin, "--admin")} --admin off turns it off.`, 1);
  }
}
