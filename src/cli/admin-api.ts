import type { Role } from "../gateway/storage.ts";
import { createAdminToken, revokeAdminToken } from "../manage/accounts.ts";
import type { CommandContext, OpenStore } from "./command-context.ts";
import { CommandError, exitCodes, orThrow } from "./command-error.ts";

type AdminApiMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** The admin API of a gateway. Both methods reject with a `CommandError` unless the answer is a good one. */
export interface RunningAdminApi {
  request(method: AdminApiMethod, path: string, options?: AdminApiOptions): Promise<Response>;
  json<Answer>(method: AdminApiMethod, path: string, body?: unknown, answerMs?: number): Promise<Answer>;
}

interface AdminApiOptions {
  readonly body?: unknown;
  /** The `etag` of what is to be changed: the change is refused if that has changed since. */
  readonly ifMatch?: string;
  /** Ends the request and its answer; without one there is a time limit. */
  readonly signal?: AbortSignal;
  /** The longest time for the answer, if there is no signal. */
  readonly answerMs?: number;
}

/** The gateway refused, in its own words. */
export class AdminApiError extends CommandError {
  constructor(
    message: string,
    exitCode: number,
    readonly code: string,
  ) {
    super(message, exitCode);
  }
}

/** Where a gateway elsewhere is, and who asks it. */
export interface RemoteGateway {
  /** Without a slash at its end. */
  readonly url: string;
  readonly token: string;
}

/** A gateway elsewhere. Its certificate is verified. */
export function remoteAdminApi({ url, token }: RemoteGateway): RunningAdminApi {
  return adminApi(url, token, true);
}

/** Uses the gateway of this configuration with a token of the command's own, which is revoked at the end. */
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
    // The certificate may be for another name than the address of this machine, which it is reached by.
    return await work(adminApi(adminUrl, secret, false));
  } finally {
    await revokeAdminToken(store, name, actor);
  }
}

function adminApi(url: string, token: string, isRemote: boolean): RunningAdminApi {
  const request: RunningAdminApi["request"] = async (method, path, { body, ifMatch, signal, answerMs = answerMsMax } = {}) => {
    let response: Response;
    try {
      response = await fetch(`${url}/admin/api${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(ifMatch === undefined ? {} : { "if-match": ifMatch }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: signal ?? AbortSignal.timeout(answerMs),
        // A token is not for whoever the answer names.
        redirect: "manual",
        ...(isRemote ? {} : { tls: { rejectUnauthorized: false } }),
      });
    } catch (error) {
      throw new CommandError(
        isRemote ? unreachable(url, error, answerMs) : `No gateway answers at ${url}. Is it running, with this configuration?`,
        exitCodes.unavailable,
      );
    }
    if (response.ok) return response;
    throw await refusal(url, response);
  };
  return {
    request,
    json: async <Answer>(method: AdminApiMethod, path: string, body?: unknown, answerMs: number = answerMsMax) => {
      const response = await request(method, path, { body, answerMs });
      try {
        return (await response.json()) as Answer;
      } catch {
        throw new CommandError(notTheApi(url), exitCodes.unavailable);
      }
    },
  };
}

/** Longer than the gateway itself takes to answer that something takes too long. */
const answerMsMax = 120_000;

async function refusal(url: string, response: Response): Promise<CommandError> {
  const said = (await response.json().catch(() => null)) as {
    readonly error?: { readonly message?: unknown; readonly code?: unknown };
  } | null;
  const { message, code } = said?.error ?? {};
  const { status } = response;
  if (status >= 500) {
    const words = typeof message === "string" ? `: ${message}` : ".";
    return new CommandError(`The gateway answered with status ${status}${words}`, exitCodes.unavailable);
  }
  if (typeof message !== "string" || typeof code !== "string")
    return new CommandError(`${notTheApi(url)} It answered with status ${status}.`, exitCodes.unavailable);
  if (code === "unknown_route") return new CommandError(`${message} The gateway may be older than this program.`, exitCodes.unavailable);
  return new AdminApiError(message, exitCodeOf(status, code), code);
}

function exitCodeOf(status: number, code: string): number {
  if (status === 401 || status === 403) return exitCodes.permission;
  if (status === 429) return exitCodes.unavailable;
  return code === "invalid_value" || code === "request_too_large" ? exitCodes.usage : exitCodes.failure;
}

function notTheApi(url: string): string {
  return `What answers at ${url} is not the admin API of a gateway: give the address that its configuration has under \`admin\`.`;
}

function unreachable(url: string, error: unknown, answerMs: number): string {
  const { code = "", name = "" } = error as { readonly code?: string; readonly name?: string };
  if (name === "TimeoutError") return `The gateway at ${url} did not answer within ${answerMs / 1000} s.`;
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/.test(code)) {
    return (
      `The certificate of ${url} could not be verified (${code}). Use the name that it is for. If an authority of your own ` +
      `signed it, name the file with that authority's certificate in NODE_EXTRA_CA_CERTS.`
    );
  }
  return `No gateway can be reached at ${url} (${code || "no reason given"}). Is it running, is its admin API open to this machine, and is the address right, with http or https?`;
}
