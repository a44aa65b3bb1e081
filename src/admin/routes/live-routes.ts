import { z } from "zod";
import { keyNames } from "../../manage/key-search.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import { AdminError } from "../admin-error.ts";
import { EventResult, route, type AdminRoute } from "../route.ts";
import type { LiveCallFacts, Services } from "../services.ts";
import { shownAttempt } from "../views/attempt-view.ts";

/** Calls as they happen. */
export const liveRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/live",
    access: "viewer",
    summary:
      "Streams the calls of this gateway, in all of its workers, as they happen, as server-sent events: four frames a second, or two where much happens, each with the calls that began, went on or ended since the last one, and how many were left out.",
    answer: z.string(),
    text: "text/event-stream",
    handle: ({ services }) => {
      const names = new KeyNames(services);
      return new EventResult((send) => {
        let waiting = 0;
        let skipped = 0;
        const watching = services.live(async ({ calls, running, omitted }) => {
          // While the store does not tell names, frames must not pile up.
          if (waiting >= waitingMax) {
            skipped += calls.length + omitted;
            return;
          }
          waiting += 1;
          const known = await names.of(calls);
          waiting -= 1;
          const shown = calls.map((call) => shownCall(call, known, services.wallMs() - services.nowMs()));
          send(JSON.stringify({ calls: shown, running, omitted: omitted + skipped }));
          skipped = 0;
        });
        return watching ?? tooMany;
      });
    },
  }),
];

const tooMany = new AdminError(429, "too_many_attempts", "Too many pages watch the calls already. Close one of them.", null, {
  "retry-after": "10",
});

/** The names of keys, looked up once for each. */
class KeyNames {
  private readonly known = new Map<string, string>();

  constructor(private readonly services: Services) {}

  async of(calls: readonly LiveCallFacts[]): Promise<ReadonlyMap<string, string>> {
    if (this.known.size > namesMax) this.known.clear();
    const unknown = new Set(calls.flatMap(({ keyId }) => (keyId === null || this.known.has(keyId) ? [] : [keyId])));
    if (unknown.size === 0) return this.known;
    try {
      const found = await keyNames(this.services, [...unknown], unknown.size);
      for (const id of unknown) this.known.set(id, found.get(id) ?? id);
    } catch {
      // The store cannot be asked now, and is asked again with the next frame.
    }
    return this.known;
  }
}

const namesMax = 2_000;
const waitingMax = 4;

function shownCall(call: LiveCallFacts, names: ReadonlyMap<string, string>, clockOffsetMs: number) {
  return {
    id: call.id,
    request_id: call.requestId,
    key: call.keyId,
    key_name: call.keyId === null ? null : (names.get(call.keyId) ?? null),
    operation: call.operation,
    model: call.model,
    stream: call.stream,
    state: call.state,
    status: call.status,
    error: call.error,
    started_ms: Math.round(call.startedMs + clockOffsetMs),
    took_ms: Math.round(call.tookMs),
    first_content_ms: call.firstContentMs === null ? null : Math.round(call.firstContentMs),
    output_tokens: Math.round(call.outputTokens),
    cost_usd: call.nanos === null ? null : dollarsNumber(call.nanos),
    attempts: call.attempts.map(shownAttempt),
  };
}
