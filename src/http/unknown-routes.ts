import type { IncomingRequest } from "../net/server/incoming-request.ts";

/** What is logged about a request to an unknown path: enough to find the misconfigured client. */
export interface UnknownRoute {
  readonly method: string;
  /** Without its query, and without anything that may be a key. */
  readonly path: string;
  readonly user_agent: string | null;
  readonly request_id: string;
  /** How many were not logged since the last one, because there were too many. */
  readonly unlogged?: number;
}

/**
 * Logs requests to unknown paths. Anybody can send them, without a key and in any number, so only a few are logged in each
 * interval, and the next line tells how many were not.
 */
export class UnknownRoutes {
  private since = -Infinity;
  private logged = 0;
  private skipped = 0;

  constructor(
    private readonly nowMs: () => number,
    private readonly log: (fact: UnknownRoute) => void,
  ) {}

  note(request: Pick<IncomingRequest, "method" | "header">, path: string, requestId: string): void {
    const nowMs = this.nowMs();
    if (nowMs - this.since >= spanMs) {
      this.since = nowMs;
      this.logged = 0;
    }
    if (this.logged >= loggedMax) {
      this.skipped += 1;
      return;
    }
    this.logged += 1;
    const unlogged = this.skipped;
    this.skipped = 0;
    this.log({
      method: request.method.slice(0, 16),
      path: withoutKeys(path.slice(0, charactersMax)),
      user_agent: request.header("user-agent")?.slice(0, charactersMax) ?? null,
      request_id: requestId,
      ...(unlogged === 0 ? undefined : { unlogged }),
    });
  }
}

const spanMs = 10_000;
const loggedMax = 20;
const charactersMax = 200;

/** A segment as long as a key may be one, sent by a misconfigured client. */
function withoutKeys(path: string): string {
  return path.replaceAll(/[^/]*(?:sk-|[\w.+=%-]{24})[^/]*/gi, "…");
}
