import type { Gateway } from "../gateway/gateway.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { AuthFailures } from "./auth-failures.ts";
import { authenticate } from "./authenticate.ts";
import { handleCall, type Door } from "./call.ts";
import { chat } from "./chat.ts";
import { Connections } from "./connections.ts";
import { errorAnswer } from "./errors.ts";
import { AnswerHead, type HttpAnswer } from "./http-answer.ts";
import type { Incoming } from "./incoming.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Pressure } from "./load-shed.ts";
import { listModels, showModel } from "./models.ts";
import { ambiguousHost, internalError, keyInUrl, noResponses, unknownRoute, unreadable, wrongMethod } from "./refusals.ts";
import { ReceiptIds } from "./receipt-ids.ts";
import { givenRequestId } from "./request-id.ts";
import { statusFor } from "./request-parser.ts";
import { pathOf, queryOf, routeOf, type Route } from "./routes.ts";
import { speech } from "./speech.ts";
import { transcription, translation } from "./transcription.ts";

/** The data plane: one listener that parses, asks the gateway and writes. It holds no admin route at all. */
export function listen(options: ListenOptions): Listener {
  const ids = new ReceiptIds();
  const perAddressMax = (): number | null => options.current().snapshot.service.connectionsPerAddressMax;
  return new Connections(
    { ...options, perAddressMax },
    {
      nowMs: options.gateway.ports.nowMs,
      answer: (request) => handle(request, options, ids),
      refusal: (problem, status) => {
        ids.next(options.wallMs());
        const requestId = ids.name();
        return errorAnswer(unreadable(problem, status ?? statusFor(problem)), { requestId, head: new AnswerHead(requestId) });
      },
      bug: (error) => {
        options.onBug(error);
        return errorAnswer(internalError, { requestId: "", head: new AnswerHead("") });
      },
    },
  );
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly reusePort: boolean;
  readonly connectionsMax: number;
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
  /** Whether there is memory for so many bytes more. */
  readonly hasRoom: (bytes: number) => boolean;
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

function handle(request: Incoming, options: ListenOptions, ids: ReceiptIds): HttpAnswer | Promise<HttpAnswer> {
  const wallMs = options.wallMs();
  const receiptId = ids.next(wallMs);
  const requestId = givenRequestId(request.header("x-request-id")) ?? ids.name();
  const head = new AnswerHead(requestId);

  if (request.header("host")?.includes(",")) return errorAnswer(ambiguousHost, { requestId, head });
  const path = pathOf(request.target);
  const route = routeOf(path);
  if (route === null)
    return errorAnswer(neverServed.has(request.method) ? wrongMethod(request.method, path) : unknownRoute(request.method, path), {
      requestId,
      head,
    });
  if (request.method !== route.method && !(request.method === "HEAD" && route.method === "GET")) {
    head.add("allow", route.method);
    return errorAnswer(wrongMethod(request.method, path), { requestId, head });
  }
  if (route.name === "healthz") {
    head.type = "text/plain";
    return { status: 200, head, body: "ok\n" };
  }
  const { snapshot, ring } = options.current();
  if (route.name === "readyz") return readiness(options.ready(), snapshot.version, options.degraded(), head);
  const query = queryOf(request.target);
  if (query !== "" && mentionsKey(query)) return errorAnswer(keyInUrl, { requestId, head });

  const key = authenticate(request, ring, wallMs);
  const arrival: Arrival = { request, route, receiptId, requestId, head, snapshot, options };
  return key instanceof Promise ? answerLater(arrival, key) : answer(arrival, key);
}

/** Methods that no path has. */
const neverServed: ReadonlySet<string> = new Set(["CONNECT", "TRACE"]);

/** A request that somebody with a key may have sent. */
interface Arrival {
  readonly request: Incoming;
  readonly route: Route;
  readonly receiptId: string;
  readonly requestId: string;
  readonly head: AnswerHead;
  readonly snapshot: Snapshot;
  readonly options: ListenOptions;
}

async function answerLater(arrival: Arrival, opened: Promise<Key | Failure>): Promise<HttpAnswer> {
  return answer(arrival, await opened);
}

function answer(arrival: Arrival, opened: Key | Failure): HttpAnswer | Promise<HttpAnswer> {
  const { request, route, receiptId, requestId, head, snapshot, options } = arrival;
  // Whoever guesses keys is slowed down; whoever has one is not, wherever it comes from.
  const guessed = isFailure(opened) && opened.status === 401 ? tooManyWrong(snapshot, options, request) : null;
  const key = guessed ?? opened;
  const door = doors.get(route.name);
  if (door !== undefined) {
    const { gateway, pressure, hasRoom, onBug } = options;
    return handleCall(request, door, { receiptId, requestId, head, key, snapshot, gateway, pressure, hasRoom, onBug });
  }
  if (isFailure(key))
    return errorAnswer(key, { requestId, head, retryAfterMs: key.kind === "store_unavailable" ? 1000 : key.retryAfterMs });
  switch (route.name) {
    case "models":
      return listModels(snapshot, key, head);
    case "model":
      return showModel(snapshot, key, route.id, requestId, head);
    default:
      return errorAnswer(noResponses, { requestId, head });
  }
}

function tooManyWrong({ service }: Snapshot, { strangers }: ListenOptions, { address }: Incoming): Failure | null {
  return service.wrongKeysMax === null ? null : strangers.note(address, service.wrongKeysMax);
}

const doors: ReadonlyMap<string, Door> = new Map([
  ["chat", chat],
  ["transcription", transcription],
  ["translation", translation],
  ["speech", speech],
]);

/** What is degraded does not make it unready: a load balancer that took every replica out would turn a nuisance into an outage. */
function readiness(ready: boolean, version: string, degraded: readonly string[], head: AnswerHead): HttpAnswer {
  const body = JSON.stringify({
    status: ready ? "ready" : "stopping",
    config: version,
    ...(degraded.length === 0 ? undefined : { degraded }),
  });
  head.type = "application/json";
  return { status: ready ? 200 : 503, head, body: `${body}\n` };
}

/** A key in a URL ends up in logs and histories; the sooner its owner learns, the better. */
function mentionsKey(query: string): boolean {
  return query
    .split("&")
    .some((pair) => ["api_key", "apikey", "api-key", "key", "access_token"].includes(pair.slice(0, pair.indexOf("=")).toLowerCase()));
}
