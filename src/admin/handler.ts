import { scopedContext, scopeOf } from "../manage/scope.ts";
import { z } from "zod";
import { type AuthContext, authorise, type Caller } from "./authorise.ts";
import { removeBootstrap } from "./login/bootstrap.ts";
import { checkInput, readQuery } from "./fields/check-input.ts";
import { makeSessionCookie } from "./login/cookie.ts";
import { eventStream } from "./event-stream.ts";
import { makeHostCheck } from "./host.ts";
import { bundledFiles } from "./console/bundle.ts";
import { makeConsoleServer, type ConsoleServer } from "./console/serve-console.ts";
import { bodyMsUsual, readJsonBody } from "./json-body.ts";
import { LoginGuard } from "./login/login-guard.ts";
import { loginRoutes } from "./routes/login-routes.ts";
import { signInRoutes } from "./routes/sign-in-routes.ts";
import { openApiRoute } from "./openapi.ts";
import { requestIdOf, securityHeaders } from "./security-headers.ts";
import type { Actor } from "../gateway/storage.ts";
import { AdminError } from "./admin-error.ts";
import { internalError, errorResponse, respond, storageError } from "./respond.ts";
import { EventResult, type RouteResult, type AdminRoute } from "./route.ts";
import { Router, targetOf } from "./router.ts";
import type { Explained, Services, ToldCommands } from "./services.ts";

export interface AdminHandlerOptions {
  /** The host it listens on. */
  readonly host: string;
  readonly services: Services;
  /** Usually `resourceRoutes`. */
  readonly routes: readonly AdminRoute[];
  readonly onBug: (error: unknown, requestId: string) => void;
  /** Further host names under which it is reached, without a port. */
  readonly hostNames?: readonly string[];
  /** It is reached over https, by its own certificate or through a proxy. */
  readonly secure?: boolean;
  /** The token in `ADMIN_TOKEN_FILE`, which `operatorTokenProblem` has accepted. */
  readonly operatorToken?: string | null;
  /** Opens the metrics and nothing else. */
  readonly metricsToken?: string | null;
  /** The file in which `prepareBootstrap` left its token. */
  readonly bootstrapFile?: string | null;
  /** A monotonic clock. */
  readonly nowMs?: () => number;
  /** The longest time for an answer. */
  readonly answerMs?: number;
  /** The longest time for a request body. */
  readonly bodyMs?: number;
}

export interface AdminHandler {
  /** All routes, including those for the login and the OpenAPI document. */
  readonly routes: readonly AdminRoute[];
  /** `stayOpen` is called for a route with a time limit of its own, which may be longer than a silent connection is kept. */
  readonly handle: (request: Request, address: string, stayOpen?: () => void) => Promise<Response>;
}

/** The admin API: it finds the route, authorises the caller, checks the input, and writes the result of the handler. */
export function makeAdminHandler(options: AdminHandlerOptions): AdminHandler {
  const { services, host, onBug } = options;
  const secure = options.secure ?? false;
  const cookie = makeSessionCookie(secure);
  const nowMs = options.nowMs ?? (() => performance.now());
  const routes: readonly AdminRoute[] = [
    ...signInRoutes({ cookie, secure, guard: new LoginGuard(nowMs, signInsPerMinute, Number.POSITIVE_INFINITY) }),
    ...loginRoutes({
      cookie,
      secure,
      guard: new LoginGuard(nowMs),
      onBootstrapped: () => (options.bootstrapFile == null ? Promise.resolve() : removeBootstrap(options.bootstrapFile)),
    }),
    ...options.routes,
    openApiRoute(() => routes),
  ];
  const digestOf = (token: string | null): string | null => (token === null ? null : services.adminDigest(token));
  const parts: HandlerParts = {
    router: new Router(routes),
    console: makeConsoleServer(bundledFiles, (error) => onBug(error, "")),
    hostAllowed: makeHostCheck(host, options.hostNames ?? []),
    auth: {
      services,
      cookie,
      secure,
      operatorTokenDigest: digestOf(options.operatorToken ?? null),
      metricsTokenDigest: digestOf(options.metricsToken ?? null),
    },
    answerMs: options.answerMs ?? 30_000,
    bodyMs: options.bodyMs ?? bodyMsUsual,
    onBug,
  };
  return { routes, handle: (request, address, stayOpen) => handle(request, address, parts, stayOpen) };
}

/**
 * Nothing can be guessed there, so that failures are no reason for a pause: with some of them, anybody could keep all others out. But each
 * attempt is a request to the provider. A whole office may share an address.
 */
const signInsPerMinute = 60;

interface HandlerParts {
  readonly router: Router;
  readonly console: ConsoleServer;
  readonly hostAllowed: (header: string | null) => boolean;
  readonly auth: AuthContext;
  readonly answerMs: number;
  readonly bodyMs: number;
  readonly onBug: (error: unknown, requestId: string) => void;
}

async function handle(request: Request, address: string, parts: HandlerParts, stayOpen?: () => void): Promise<Response> {
  const requestId = requestIdOf(request.headers.get("x-request-id"));
  const headers = securityHeaders(requestId, parts.auth.secure);
  if (!parts.hostAllowed(request.headers.get("host"))) return errorResponse(hostNotAllowed, headers);
  const { path, query } = targetOf(request.url);
  const ofConsole = parts.console(request, path, headers);
  if (ofConsole !== null) return ofConsole;
  const found = parts.router.find(request.method, path);
  if (found.kind === "none") return errorResponse(unknownRoute(request.method, path), headers);
  if (found.kind === "method") {
    headers.set("allow", found.allow);
    return errorResponse(wrongMethod(request.method, path, found.allow), headers);
  }
  const { route, params } = found;
  let { told } = parts.auth.services;
  try {
    const caller = await authorise(request.headers, route, parts.auth);
    if (caller instanceof AdminError) return errorResponse(caller, headers);
    const ifMatch = request.headers.get("if-match");
    if (ifMatch !== null && !route.conditional && route.method !== "GET") return errorResponse(ifMatchUnsupported, headers);
    const input = await readInput(request, query, route, parts.bodyMs);
    if (input instanceof AdminError) return errorResponse(input, headers);
    if (route.answerMs !== null) stayOpen?.();
    const services = await servicesFor(caller, route, parts.auth.services);
    ({ told } = services);
    const answering = route.handle({
      ...input,
      params,
      caller,
      ifMatch,
      headers: request.headers,
      role: caller.kind === "anonymous" ? null : caller.role,
      actor: { kind: "admin", name: nameOf(caller), address, ...personOf(caller) },
      services,
      requestId,
      address,
      signal: request.signal,
    });
    const given = await within(answering, route.answerMs ?? parts.answerMs, route);
    const answer = given instanceof AdminError ? given.typed(told.asTyped) : given;
    if (!(answer instanceof EventResult)) return respond(answer, route.status, headers);
    return eventStream(
      answer,
      headers,
      request.signal,
      async () => !((await authorise(request.headers, route, parts.auth)) instanceof AdminError),
    );
  } catch (error) {
    const expected = storageError(error);
    if (expected === null) parts.onBug(error, requestId);
    return errorResponse(expected?.typed(told.asTyped) ?? internalError, headers);
  }
}

async function readInput(
  request: Request,
  query: string,
  route: AdminRoute,
  bodyMs: number,
): Promise<{ query: unknown; body: unknown } | AdminError> {
  const given = readQuery(query);
  if (given instanceof AdminError) return given;
  const parameters = checkInput(route.query ?? noParameters, given, "parameter");
  if (parameters instanceof AdminError) return parameters;
  if (route.body === null) return { query: parameters.value, body: {} };
  const sent = await readJsonBody(request, bodyMs, route.bodyBytesMax ?? undefined);
  if (sent instanceof AdminError) return sent;
  const body = checkInput(route.body, sent.value, "field");
  return body instanceof AdminError ? body : { query: parameters.value, body: body.value };
}

const noParameters = z.strictObject({});

async function servicesFor(caller: Caller, route: AdminRoute, all: Services): Promise<Services> {
  // A command line elsewhere writes commands as it was started itself.
  const services = caller.kind === "token" ? { ...all, told: plainCommands } : all;
  return caller.kind === "anonymous" || caller.group === null || !route.scoped ? services : scoped(services, caller.group);
}

const plainCommands: ToldCommands = { name: "sluice", asTyped: (text) => text };

/** What a group admin may see. Without a key, an explanation would show what no client of the group may use. */
async function scoped(services: Services, group: string): Promise<Services> {
  const scope = await scopeOf(services, group);
  const own = scopedContext(services, scope);
  const explain: Services["explain"] = (ask) =>
    ask.key === null ? Promise.resolve(unexplained) : services.explain({ ...ask, groups: scope.ids });
  return { ...own, explain };
}

const unexplained: Explained = {
  outcome: "refuse",
  refusals: [{ status: 403, code: "forbidden", message: "Name a key of your group." }],
  unknown: [],
  mode: null,
  candidates: [],
  skipped: [],
  retryAfterMs: null,
  reserve: null,
};

/** The name in the audit log, which distinguishes a token from an account of the same name. */
function nameOf(caller: Caller): string {
  if (caller.kind === "anonymous") return "stranger";
  return caller.kind === "token" ? `token:${caller.name}` : caller.name;
}

function personOf(caller: Caller): Pick<Actor, "person"> {
  return caller.kind === "session" && caller.person !== null ? { person: caller.person } : {};
}

/** Answers after a time limit. A query can be narrowed; a change that takes too long may still be made. */
function within(
  answering: Promise<RouteResult<unknown>> | RouteResult<unknown>,
  answerMs: number,
  { method }: AdminRoute,
): Promise<RouteResult<unknown>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(method === "GET" ? slowQuery : slowChange), answerMs);
    Promise.resolve(answering)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

const slowQuery = new AdminError(
  400,
  "query_too_slow",
  "The query takes too long. Ask for less: a shorter time range, fewer groups or a smaller page.",
);
const slowChange = new AdminError(
  504,
  "timed_out",
  "The store takes too long. The change may or may not have been made: check before you repeat it.",
);

const ifMatchUnsupported = new AdminError(
  400,
  "invalid_value",
  "This route does not support 'If-Match': send the change without it.",
  "if-match",
);

const hostNotAllowed = new AdminError(
  421,
  "host_not_allowed",
  "The admin API is not available under this host name. Use the address it listens on, or add the name to `admin_names` in the configuration.",
);

function unknownRoute(method: string, path: string): AdminError {
  const shown = `${method.slice(0, 16)} ${path.slice(0, 200)}`;
  return new AdminError(404, "unknown_route", `Unknown request URL: ${shown}. GET /admin/api/openapi.json lists all routes.`);
}

function wrongMethod(method: string, path: string, allow: string): AdminError {
  return new AdminError(405, "method_not_allowed", `Method ${method.slice(0, 16)} is not allowed for ${path.slice(0, 200)}: use ${allow}.`);
}
