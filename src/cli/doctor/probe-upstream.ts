import type { UpstreamAddress, UpstreamProbe } from "./upstreams.ts";

type ProbeFetch = (url: string, init: BunFetchRequestInit) => Promise<Response>;

export interface ProbePorts {
  readonly fetch: ProbeFetch;
  readonly resolves: (host: string) => Promise<boolean>;
  readonly nowMs: () => number;
  readonly wallMs: () => number;
}

/** Asks an upstream for its address, without a key. Whatever it answers shows that it can be reached. */
export async function probeUpstream({ baseUrl, proxy }: UpstreamAddress, ports: ProbePorts): Promise<UpstreamProbe> {
  const host = new URL(proxy ?? baseUrl).hostname;
  if (!(await ports.resolves(host))) return { kind: "unresolved", host };
  const beganMs = ports.nowMs();
  try {
    const init: BunFetchRequestInit = { signal: AbortSignal.timeout(probeMs), redirect: "manual" };
    const response = await ports.fetch(baseUrl, proxy === null ? init : { ...init, proxy });
    // Nobody can tell how long it is, and the head is enough.
    await response.body?.cancel();
    const date = Date.parse(response.headers.get("date") ?? "");
    return { kind: "answered", tookMs: ports.nowMs() - beganMs, serverMs: Number.isNaN(date) ? null : date, wallMs: ports.wallMs() };
  } catch (error) {
    const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
    return { kind: "failed", code: typeof code === "string" ? code : String(name) };
  }
}

const probeMs = 10_000;

/** Runs all work, a few at a time, and keeps the order. */
export async function fewAtATime<Item, Result>(items: readonly Item[], work: (item: Item) => Promise<Result>): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += atATime) results.push(...(await Promise.all(items.slice(at, at + atATime).map(work))));
  return results;
}

const atATime = 8;
