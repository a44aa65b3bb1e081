import type { Gateway } from "../gateway/gateway.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { authenticate } from "./authenticate.ts";
import { handleCall, idleSeconds, type Door } from "./call.ts";
import { chat } from "./chat.ts";
import { errorResponse } from "./errors.ts";
import type { KeyRing } from "./key-ring.ts";
import { listModels, showModel } from "./models.ts";
import { ambiguousHost, internalError, keyInUrl, noResponses, unknownRoute, wrongMethod } from "./refusals.ts";
import { ownHeaders } from "./own-headers.ts";
import { requestIdOf } from "./request-id.ts";
import { routeOf, targetOf } from "./routes.ts";
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
    fetch: (request, self) => handle(request, options, (seconds) => self.timeout(request, seconds)),
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

function handle(request: Request, options: ListenOptions, timeout: (seconds: number) => void): Response | Promise<Response> {
  const requestId = requestIdOf(request.headers.get("x-request-id"));
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
  if (route.name === "readyz") return readiness(options.ready(), snapshot.version);
  if (query !== "" && mentionsKey(query)) return refuse(keyInUrl);

  const key = authenticate(request, ring, options.wallMs());
  const door = doors.get(route.name);
  if (door !== undefined) {
    return handleCall(request, door, { requestId, headers, key, snapshot, gateway: options.gateway, timeout, onBug: options.onBug });
  }
  if (isFailure(key)) return refuse(key);
  switch (route.name) {
    case "models":
      return listModels(snapshot, key, headers);
    case "model":
      return showModel(snapshot, key, route.id, requestId, headers);
    default:
      return refuse(noResponses);
  }
}

const doors: ReadonlyMap<string, Door> = new Map([
  ["chat", chat],
  ["transcription", transcription],
  ["translation", translation],
  ["speech", speech],
]);

function readiness(ready: boolean, version: string): Response {
  const body = JSON.stringify({ status: ready ? "ready" : "stopping", config: version });
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
