import type { Role } from "../gateway/storage.ts";
import { createAdminToken, revokeAdminToken } from "../manage/accounts.ts";
import type { CommandContext, OpenStore } from "./command-context.ts";
import { CommandError, exitCodes, orThrow } from "./command-error.ts";

/** The admin API of the gateway that runs with this configuration. */
export interface RunningAdminApi {
  /** Rejects with a `CommandError` unless the answer is a good one. */
  request(method: "GET" | "POST" | "DELETE", path: string, options?: { body?: unknown; signal?: AbortSignal }): Promise<Response>;
}

/** Uses it with a token of the command's own, which is revoked at the end. */
export async function withAdminApi<T>(
  { command, role }: { readonly command: string; readonly role: Role },
  store: OpenStore,
  { adminUrl, actor, wallMs }: CommandContext,
  work: (api: RunningAdminApi) => Promise<T>,
): Promise<T> {
  if (adminUrl === null) throw new CommandError(`The admin API is off (\`admin: off\`), and \`sluice ${command}\` needs it.`);
  const name = `${command}-${wallMs().toString(36)}`;
  const { secret } = orThrow(await createAdminToken(store, { name, role }, actor));
  try {
    return await work({
      request: (method, path, { body, signal } = {}) =>
        good(adminUrl, path, {
          method,
          headers: { authorization: `Bearer ${secret}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          ...(signal === undefined ? {} : { signal }),
        }),
    });
  } finally {
    await revokeAdminToken(store, name, actor);
  }
}

async function good(adminUrl: string, path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    // The certificate may be for another name than the address of this machine, which it is reached by.
    response = await fetch(`${adminUrl}/admin/api${path}`, { ...init, tls: { rejectUnauthorized: false } });
  } catch {
    throw new CommandError(`No gateway answers at ${adminUrl}. Is it running, with this configuration?`, exitCodes.unavailable);
  }
  if (response.ok) return response;
  const said = (await response.json().catch(() => null)) as { readonly error?: { readonly message?: unknown } } | null;
  const message = said?.error?.message;
  if (response.status < 500 && typeof message === "string") throw new CommandError(message);
  throw new CommandError(`The gateway answered with status ${response.status}.`, exitCodes.unavailable);
}
