import type { Gateway } from "../gateway/gateway.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { AuthFailures } from "./auth-failures.ts";
import { authenticate } from "./authenticate.ts";
import { handleCall, idleSeconds, type Door } from "./call.ts";
import { chat } from "./chat.ts";
import { errorResponse } from "./errors.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Pressure } from "./load-shed.ts";
import { listModels, showModel } from "./models.ts";
import { ambiguousHost, internalError, keyInUrl, noResponses, unknownRoute, wrongMethod } from "./refusals.ts";
import { ownHeaders } from "./own-headers.ts";
import { newReceiptId, requestIdOf } from "./request-id.ts";
import { routeOf, targetOf, type Route } from "./routes.ts";
import { speech } from "./speech.ts";
import { transcription, translation } from "./transcription.ts";

/** The data plane: one listener that parses, asks the gateway and writes. It holds no admin route at all. */
export function listen(options: ListenOptions): Listener {
  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    reusePort: options.reusePort,
    idleTimeout: idleSeconds,
    // Our own bound answers in the envelope; this one only stops what lies about its length.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: (request, self) =>
      handle(
        request,
        options,
        (seconds) => self.timeout(request, seconds),
        () => self.requestIP(request)?.address ?? null,
      ),
    error: (error) => {
      options.onBug(error);
      return errorResponse(internalError, { requestId: "", headers: ownHeaders("") });
    },
  });
  return {
    url: `http://${server.hostname?.includes(":") ? `[${server.hostname}]` : server.hostname}:${server.port}`,
    stopListening: async () => {
      await server.stop(false);
    },
    close: async () => {
      await server.stop(true);
    },
  };
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly reusePort: boolean;
  readonly gateway: Gateway;
  /** What the gateway serves with at this moment; a call keeps what it began with. */
  readonly current: () => Current;
  readonly ready: () => boolean;
  /** What does not work at the moment, though calls are served. */
  readonly degraded: () => readonly string[];
  /** Counts wrong keys by where they come from. */
  readonly strangers: AuthFailures;
  /** How hard pressed the process is. */
  readonly pressure: () => Pressure;
  readonly wallMs: () => number;
  readonly onBug: (error: unknown) => void;
}

export interface Current {
  readonly snapshot: Snapshot;
  readonly ring: KeyRing;
}

export interface Listener {
  readonly url: string;
  /** Takes no new connections; those it has may finish. */
  stopListening(): Promise<void>;
  close(): Promise<void>;
}

function handle(
  request: Request,
  options: ListenOptions,
  timeout: (seconds: number) => void,
  address: () => string | null,
): Response | Promise<Response> {
  const receiptId = newReceiptId();
  const requestId = requestIdOf(request.headers.get("x-request-id"), receiptId);
  const headers = ownHeaders(requestId);
  const refuse = (failure: Failure): Response => errorResponse(failure, { requestId, headers });

  if (request.headers.get("host")?.includes(",")) return refuse(ambiguousHost);
  const { path, query } = targetOf(request.url);
  const route = routeOf(path);
  if (route === null) return refuse(unknownRoute(request.method, path));
  if (request.method !== route.method && !(request.method === "HEAD" && route.method === "GET")) {
    headers.set("allow", route.method);
    return refuse(wrongMethod(request.method, path));
  }
  if (route.name === "healthz") return new Response("ok\n", { headers: { "content-type": "text/plain", "cache-control": "no-store" } });
  const { snapshot, ring } = options.current();
  if (route.name === "readyz") return readiness(options.ready(), snapshot.version, options.degraded());
  if (query !== "" && mentionsKey(query)) return refuse(keyInUrl);

  const key = authenticate(request, ring, options.wallMs());
  const from: Arrival = { route, receiptId, requestId, headers, snapshot, timeout, address };
  return key instanceof Promise ? key.then((late) => answer(request, late, from, options)) : answer(request, key, from, options);
}

interface Arrival {
  readonly route: Route;
  readonly receiptId: string;
  readonly requestId: string;
  readonly headers: Headers;
  readonly snapshot: Snapshot;
  readonly timeout: (seconds: number) => void;
  readonly address: () => string | null;
}

function answer(request: Request, opened: Key | Failure, from: Arrival, options: ListenOptions): Response | Promise<Response> {
  const { route, receiptId, requestId, headers, snapshot, timeout } = from;
  // Whoever guesses keys is slowed down; whoever has one is not, wherever it comes from.
  const guessed = isFailure(opened) && opened.status === 401 ? tooManyWrong(snapshot, options, from) : null;
  const key = guessed ?? opened;
  const door = doors.get(route.name);
  if (door !== undefined) {
    return handleCall(request, door, {
      receiptId,
      requestId,
      headers,
      key,
      snapshot,
      gateway: options.gateway,
      pressure: options.pressure,
      timeout,
      onBug: options.onBug,
    });
  }
  if (isFailure(key))
    return errorResponse(key, { requestId, headers, retryAfterMs: key.kind === "store_unavailable" ? 1000 : key.retryAfterMs });
  switch (route.name) {
    case "models":
      return listModels(snapshot, key, headers);
    case "model":
      return showModel(snapshot, key, route.id, requestId, headers);
    default:
      return errorResponse(noResponses, { requestId, headers });
  }
}

function tooManyWrong({ service }: Snapshot, { strangers }: ListenOptions, { address }: Arrival): Failure | null {
  return service.wrongKeysMax === null ? null : strangers.note(address() ?? "", service.wrongKeysMax);
}

const doors: ReadonlyMap<string, Door> = new Map([
  ["chat", chat],
  ["transcription", transcription],
  ["translation", translation],
  ["speech", speech],
]);

/** What is degraded does not make it unready: a load balancer that took every replica out would turn a nuisance into an outage. */
function readiness(ready: boolean, version: string, degraded: readonly string[]): Response {
  const body = JSON.stringify({
    status: ready ? "ready" : "stopping",
    config: version,
    ...(degraded.length === 0 ? undefined : { degraded }),
  });
  return new Response(`${body}\n`, {
    status: ready ? 200 : 503,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });
}

/** A key in a URL ends up in logs and histories; the sooner its owner learns, the better. */
function mentionsKey(query: string): boolean {
  return query
    .split("&")
    .some((pair) => ["api_key", "apikey", "api-key", "key", "access_token"].includes(pair.slice(0, pair.indexOf("=")).toLowerCase()));
}
