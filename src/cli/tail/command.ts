import { SseReader } from "../../dialects/readers/sse.ts";
import { createAdminToken, revokeAdminToken } from "../../manage/accounts.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";
import { safeJson } from "../shown-text.ts";
import type { TailRequest } from "./arguments.ts";
import { isWanted, tailLine, type TailedCall } from "./tail-line.ts";

/** Follows the live calls with a token of its own, which it revokes at the end. */
export async function runTail(request: TailRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { adminUrl, terminal, actor } = context;
  if (adminUrl === null) throw new CommandError("The admin API is off (`admin: off`), and `sluice tail` needs it.");
  const interrupted = context.interruption();
  const name = `tail-${context.wallMs().toString(36)}`;
  const { secret } = orThrow(await createAdminToken(store, { name, role: "viewer" }, actor));
  try {
    const response = await connect(`${adminUrl}/admin/api/live`, secret, interrupted);
    terminal.say("Following the calls. Ctrl-C ends.");
    for await (const data of eventsOf(response, interrupted)) {
      for (const call of callsIn(data)) {
        const line = tailLine(call);
        if (isWanted(call, line, request)) terminal.print(request.json ? safeJson(JSON.stringify(call)) : line);
      }
    }
    if (!interrupted.aborted) throw new CommandError("The gateway has closed the connection.", exitCodes.unavailable);
  } finally {
    await revokeAdminToken(store, name, actor);
  }
}

async function connect(url: string, secret: string, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    // The certificate may be for another name than the address of this machine, which it is reached by.
    response = await fetch(url, { headers: { authorization: `Bearer ${secret}` }, signal, tls: { rejectUnauthorized: false } });
  } catch {
    throw new CommandError(`No gateway answers at ${new URL(url).origin}. Is it running, with this configuration?`, exitCodes.unavailable);
  }
  if (!response.ok) throw new CommandError(`The gateway answered with status ${response.status}.`, exitCodes.unavailable);
  return response;
}

async function* eventsOf(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  const reader = new SseReader();
  try {
    for await (const chunk of response.body ?? []) {
      const events = reader.push(chunk);
      if (events === "too_large") return;
      for (const { data } of events) yield data;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function callsIn(data: string): readonly TailedCall[] {
  const frame = JSON.parse(data) as { readonly calls?: readonly TailedCall[] } | number;
  return typeof frame === "object" ? (frame.calls ?? []) : [];
}
