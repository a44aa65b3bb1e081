import type { Snapshot } from "../gateway/snapshot.ts";
import type { Key } from "../keys/key.ts";
import type { ErrorFormat } from "../operations/conversation/surface.ts";
import { defaultErrors, generateAnswers, messagesSurface } from "../surfaces/index.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { RequestContext, ListenerServices } from "./request-context.ts";
import { listAudioModels, listVoices } from "./audio-lists.ts";
import type { AuthFailures } from "./auth-failures.ts";
import { authenticate, namesNoKey, type KeyRing } from "./authenticate.ts";
import { handleCall, type Endpoint } from "./call.ts";
import { clientAddress, isTrustedProxy } from "../net/server/forwarded.ts";
import { Connections } from "../net/server/connections.ts";
import { allowOrigin } from "./cors.ts";
import { refusal } from "./errors.ts";
import { imageEdits, imageVariations } from "./image-forms.ts";
import { ResponseHead, type HttpResponse } from "../net/server/http-response.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import type { ServerTls } from "../net/server/server-tls.ts";
import { chat, generate, generateList, generateStream, messages, passthrough, responses, speech } from "./json-endpoints.ts";
import { listGenerateModels, listModels, showModel, type ModelScope } from "./models.ts";
import { internalError, keyInUrl, noUpgrade, unknownRoute, unreadable, wrongMethod } from "./request-errors.ts";
import { ReceiptIds } from "./receipt-ids.ts";
import { statusFor } from "../net/server/request-parser.ts";
import { pathOf, queryOf, routeOf, type HttpRoute } from "./routes.ts";
import { metricsPath, metricsResponse, type MetricsEndpoint } from "./metrics.ts";
import { countGenerateTokens, countMessagesTokens } from "./token-counts.ts";
import { transcription, translation } from "./transcription.ts";
import type { UnknownRoutes } from "./unknown-routes.ts";

/** The data plane: one listener that parses requests, passes them to the gateway and writes responses. It has no admin routes. */
export function listen(options: ListenOptions): Listener {
  const ids = new ReceiptIds();
  /** For the response to input that did not become a request. */
  const newHead = (): ResponseHead => {
    ids.next(options.wallMs());
    return new ResponseHead(ids.name());
  };
  const perAddressMax = (address: string): number | null => {
    const { connectionsPerAddressMax, trustedProxies } = options.current().snapshot.service;
    return trustedProxies !== null && isTrustedProxy(address, trustedProxies) ? null : connectionsPerAddressMax;
  };
  return new Connections(
    { ...options, perAddressMax },
    {
      nowMs: options.gateway.ports.nowMs,
      handle: (request) => handle(request, options, ids),
      parseError: (problem, status) => refused(unreadable(problem, status ?? statusFor(problem)), newHead(), options),
      onBug: (error) => {
        options.onBug(error);
        return refused(internalError, newHead(), options);
      },
    },
  );
}

export interface ListenOptions extends ListenerServices {
  readonly host: string;
  readonly port: number;
  /** A unix socket, in place of the host and the port; null for none. */
  readonly socket: { readonly path: string; readonly mode: number } | null;
  readonly reusePort: boolean;
  /** Null for plain HTTP. */
  readonly tls: ServerTls | null;
  readonly connectionsMax: number;
  /** The current configuration; a call keeps the one it began with. */
  readonly current: () => CurrentConfig;
  readonly ready: () => boolean;
  /** What does not work at the moment, although calls are served. */
  readonly degraded: () => readonly string[];
  /** Limits wrong keys by client network. */
  readonly authFailures: AuthFailures;
  /** Logs requests to unknown paths. */
  readonly unknownRoutes: UnknownRoutes;
  /** Called for each error that this listener answers with itself: no call is made of such a request, so that nothing else tells of it. */
  readonly onRefused: (why: Failure) => void;
  /** The metrics, if this listener shows them; null if it does not. */
  readonly metrics: MetricsEndpoint | null;
  readonly wallMs: () => number;
}

export interface CurrentConfig {
  readonly snapshot: Snapshot;
  readonly ring: KeyRing;
}

export interface Listener {
  readonly url: string;
  /** Uses another certificate for new connections. */
  renew(tls: ServerTls): void;
  /** Stops accepting; open connections may finish. */
  stopListening(): Promise<void>;
  close(): Promise<void>;
}

function handle(request: IncomingRequest, options: ListenOptions, ids: ReceiptIds): HttpResponse | Promise<HttpResponse | null> | null {
  const wallMs = options.wallMs();
  const receiptId = ids.next(wallMs);
  const receiptName = ids.name();
  const head = new ResponseHead(givenRequestId(request.header("x-request-id")) ?? receiptName);

  const { snapshot, ring } = options.current();
  const { corsOrigins } = snapshot.service;
  const preflight = corsOrigins === null ? null : allowOrigin(request, head, corsOrigins);
  if (preflight !== null) return preflight;

  const path = pathOf(request.target);
  if (path === metricsPath && options.metrics !== null) return metricsResponse(request, head, options.metrics);
  const route = routeOf(path);
  if (route === null || asksUnknownMethod(route, request)) {
    options.unknownRoutes.note(request, path, head.requestId);
    const errors = unservedFormatOf(route, path, request, head);
    if (!neverServed.has(request.method)) return refused(unknownRoute(request.method, path), head, options, errors);
    head.add("allow", "GET, POST");
    return refused(wrongMethod(request.method, path), head, options, errors);
  }
  // A client that would rather have a WebSocket goes on over HTTP after this status, and after no other. It is not counted as an error.
  if (route.name === "responses" && request.method === "GET" && /^websocket$/i.test(request.header("upgrade") ?? "")) {
    head.add("upgrade", "HTTP/1.1");
    return refusal(noUpgrade, head);
  }
  if (request.method !== route.method && !(request.method === "HEAD" && route.method === "GET")) {
    head.add("allow", route.method);
    return refused(wrongMethod(request.method, path), head, options, unservedFormatOf(route, path, request, head));
  }
  if (route.name === "root") return rootResponse(head);
  if (route.name === "healthz") {
    head.type = "text/plain";
    return { status: 200, head, body: "ok\n" };
  }
  if (route.name === "readyz") return readiness(options.ready(), snapshot.version, options.degraded(), head);
  const query = queryOf(request.target);
  const endpoint = endpointOf(route, query);
  const errors = formatAt(route, endpoint, request);
  if (errors.requestIdHeader !== undefined) head.add(errors.requestIdHeader, head.requestId);
  if (query !== "" && hasKeyParameter(query)) return refused(keyInUrl, head, options, errors);

  if (snapshot.service.openAudioLists && namesNoKey(request)) {
    if (route.name === "audio_models") return listAudioModels(snapshot, anybody, head);
    if (route.name === "audio_voices") return listVoices(snapshot, anybody, head, query);
  }
  const context: RequestContext = {
    request,
    path,
    receiptId,
    receiptName,
    head,
    snapshot,
    services: options,
    errors,
    pathModel: modelOf(route),
  };
  const key = authenticate(request, ring, wallMs);
  // A key that is known without asking the store is not awaited, so that a connection answers pipelined requests in one loop.
  return key instanceof Promise ? answerLater(context, route, endpoint, key, options) : answer(context, route, endpoint, key, options);
}

function refused(why: Failure, head: ResponseHead, { onRefused }: ListenOptions, errors: ErrorFormat = defaultErrors): HttpResponse {
  onRefused(why);
  return refusal(why, head, errors);
}

/** Whoever asks for what needs no key sees what any key could. */
const anybody: ModelScope = { models: null, operations: null, channels: null };

function modelOf(route: HttpRoute): string | null {
  return "model" in route ? (route.model ?? null) : null;
}

/** The client's own request id, if it is safe to log; else null. */
function givenRequestId(given: string | null): string | null {
  return given !== null && harmless.test(given) ? given : null;
}

const harmless = /^[\w.-]{1,64}$/;

/** Methods that no path supports. */
const neverServed: ReadonlySet<string> = new Set(["CONNECT", "TRACE"]);

/** Answers a request whose key was looked up. Null: the call that it makes is answered when it is served. */
function answer(
  context: RequestContext,
  route: HttpRoute,
  endpoint: Endpoint | null,
  authenticated: Key | Failure,
  options: ListenOptions,
): HttpResponse | Promise<HttpResponse> | null {
  const { request, head, snapshot, errors } = context;
  // Clients that guess keys are slowed down; clients with a valid key are not, whatever network they share.
  const throttled = isFailure(authenticated) && authenticated.status === 401 ? tooManyAuthFailures(snapshot, options, request) : null;
  const key = throttled ?? authenticated;
  if (endpoint !== null) {
    handleCall(context, endpoint, key);
    return null;
  }
  if (isFailure(key)) return refused(key, head, options, errors);
  if (route.name === "model" || route.name === "generate_model") return showModel(context, key, route.id);
  if (route.name === "generate_models") return listGenerateModels(snapshot, key, head, queryOf(request.target));
  if (route.name === "generate_count") return countGenerateTokens(context, key);
  if (route.name === "count_tokens") return countMessagesTokens(context, key);
  if (route.name === "audio_models") return listAudioModels(snapshot, key, head);
  if (route.name === "audio_voices") return listVoices(snapshot, key, head, queryOf(request.target));
  return listModels(snapshot, key, head, errors, queryOf(request.target));
}

async function answerLater(
  context: RequestContext,
  route: HttpRoute,
  endpoint: Endpoint | null,
  key: Promise<Key | Failure>,
  options: ListenOptions,
): Promise<HttpResponse | null> {
  return answer(context, route, endpoint, await key, options);
}

function tooManyAuthFailures({ service }: Snapshot, { authFailures }: ListenOptions, request: IncomingRequest): Failure | null {
  if (service.wrongKeysMax === null) return null;
  const address = clientAddress(request.address, (name) => request.header(name), service.trustedProxies);
  return authFailures.note(address, service.wrongKeysMax);
}

/**
 * A method of a model that is not served, such as `embedContent`. The path is that of a model of this name as well: to say that it wants
 * another HTTP method would mislead.
 */
function asksUnknownMethod(route: HttpRoute, { method }: IncomingRequest): boolean {
  return method === "POST" && (route.name === "model" || route.name === "generate_model") && route.id.includes(":");
}

/** The API in which a request is answered that has no endpoint, or the wrong HTTP method for it. */
function unservedFormatOf(route: HttpRoute | null, path: string, request: IncomingRequest, head: ResponseHead): ErrorFormat {
  const errors = route === null ? strangeFormatOf(path, request) : formatAt(route, endpointOf(route, queryOf(request.target)), request);
  if (errors.requestIdHeader !== undefined) head.add(errors.requestIdHeader, head.requestId);
  return errors;
}

function strangeFormatOf(path: string, request: IncomingRequest): ErrorFormat {
  if (path.startsWith("/v1beta/")) return generateAnswers;
  return path.startsWith("/v1/messages/") || namesVersion(request) ? messagesSurface : defaultErrors;
}

function formatAt(route: HttpRoute, endpoint: Endpoint | null, request: IncomingRequest): ErrorFormat {
  return endpoint === null ? errorFormatOf(route, request) : (endpoint.surface ?? defaultErrors);
}

/** The API in which a client is answered that makes no call: where two share a path, its headers show which one it speaks. */
function errorFormatOf({ name }: HttpRoute, request: IncomingRequest): ErrorFormat {
  if (name === "count_tokens") return messagesSurface;
  if (name.startsWith("generate_")) return generateAnswers;
  const lists = name === "models" || name === "model";
  return lists && namesVersion(request) ? messagesSurface : defaultErrors;
}

function namesVersion(request: IncomingRequest): boolean {
  const { versionHeader } = messagesSurface;
  return versionHeader !== undefined && request.header(versionHeader) !== null;
}

/** One client asks for it before anything else, to see whether somebody is there. */
function rootResponse(head: ResponseHead): HttpResponse {
  head.type = "text/plain";
  return { status: 200, head, body: "sluice\n" };
}

/** The same path streams events or a list, as its query says. */
function endpointOf({ name }: HttpRoute, query: string): Endpoint | null {
  if (name === "generate_stream" && new URLSearchParams(query).get("alt") !== "sse") return generateList;
  return endpoints.get(name) ?? null;
}

const endpoints: ReadonlyMap<string, Endpoint> = new Map([
  ["generate", generate],
  ["generate_stream", generateStream],
  ["chat", chat],
  ["messages", messages],
  ["responses", responses],
  ["transcription", transcription],
  ["translation", translation],
  ["speech", speech],
  ["image_edit", imageEdits],
  ["image_variation", imageVariations],
  ...Object.entries(passthrough),
]);

/** A degraded process stays ready: a load balancer that removed every replica would turn a nuisance into an outage. */
function readiness(ready: boolean, version: string, degraded: readonly string[], head: ResponseHead): HttpResponse {
  const body = JSON.stringify({
    status: ready ? "ready" : "stopping",
    config: version,
    ...(degraded.length === 0 ? undefined : { degraded }),
  });
  head.type = "application/json";
  return { status: ready ? 200 : 503, head, body: `${body}\n` };
}

/** Keys in URLs end up in logs and browser histories, so they are rejected at once. */
function hasKeyParameter(query: string): boolean {
  return /(?:^|&)(?:api_?key|api-key|key|access_token)=/i.test(query);
}
