import { SseReader } from "../../dialects/readers/sse.ts";
import type { RunningAdminApi } from "../admin-api.ts";
import type { CommandSurroundings } from "../command-context.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import { safeJson } from "../shown-text.ts";
import type { TailRequest } from "./arguments.ts";
import { isWanted, tailLine, type TailedCall } from "./tail-line.ts";

/** Follows the live calls. */
export async function runTail(request: TailRequest, api: RunningAdminApi, context: CommandSurroundings): Promise<void> {
  const { terminal } = context;
  const interrupted = context.interruption();
  const response = await api.request("GET", "/live", { signal: interrupted });
  terminal.say("Following the calls. Ctrl-C ends.");
  for await (const data of eventsOf(response, interrupted)) {
    for (const call of callsIn(data)) {
      const line = tailLine(call);
      if (isWanted(call, line, request)) terminal.print(request.json ? safeJson(JSON.stringify(call)) : line);
    }
  }
  if (!interrupted.aborted) throw new CommandError("The gateway has closed the connection.", exitCodes.unavailable);
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
