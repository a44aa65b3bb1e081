import { z } from "zod";
import { authorise, type Authority } from "./authority.ts";
import { removeBootstrap } from "./login/bootstrap.ts";
import type { Caller } from "./caller.ts";
import { checkInput, readQuery } from "./fields/check-input.ts";
import { makeSessionCookie } from "./login/cookie.ts";
import { makeHostCheck } from "./host.ts";
import { bodyMsUsual, readJsonBody } from "./json-body.ts";
import { LoginGuard } from "./login/login-guard.ts";
import { loginRoutes } from "./routes/login-routes.ts";
import { openApiRoute } from "./openapi.ts";
import { ownHeaders } from "./own-headers.ts";
import { prepareVerification } from "./login/password.ts";
import { Refusal } from "./refusal.ts";
import { requestIdOf } from "./request-id.ts";
import { internalError, refuse, respond, troubleRefusal } from "./respond.ts";
import type { Answer, Route } from "./route.ts";
import { Router, targetOf } from "./router.ts";
import type { Services } from "./services.ts";

export interface AdminOptions {
  readonly host: string;
  /** 0 for any that is free. */
  readonly port: number;
  readonly services: Services;
  /** Usually `resourceRoutes`. */
  readonly routes: readonly Route[];
  readonly onBug: (error: unknown, requestId: string) => void;
  /** Names beside the loopback's and the bound host under which people reach it, without a port. */
  readonly hostNames?: readonly string[];
  /** People reach it over TLS, which something in front of it ends. */
  readonly secure?: boolean;
  /** What `ADMIN_TOKEN_FILE` holds, after `givenTokenProblem` had nothing to say. */
  readonly givenToken?: string | null;
  /** Where `prepareBootstrap` left its token. */
  readonly bootstrapFile?: string | null;
  /** A clock that never jumps. */
  readonly nowMs?: () => number;
  /** The longest an answer may take. */
  readonly answerMs?: number;
  /** The longest a request's body may take to arrive. */
  readonly bodyMs?: number;
  /** Several processes share the port. */
  readonly reusePort?: boolean;
}

export interface AdminListener {
  readonly url: string;
  /** Everything it serves, with the door's own routes. */
  readonly routes: readonly Route[];
  /** Lets running requests finish. */
  stopListening(): Promise<void>;
  close(): Promise<void>;
}

/** The other door: one listener that finds the route, asks who it is, checks what came, and writes what the handler gave. */
export function listenAdmin(options: AdminOptions): AdminListener {
  const { services, host, onBug } = options;
  const secure = options.secure ?? false;
  const cookie = makeSessionCookie(secure);
  const routes: readonly Route[] = [
    ...loginRoutes({
      cookie,
      guard: new LoginGuard(options.nowMs ?? (() => performance.now())),
      onBootstrapped: () => (options.bootstrapFile == null ? Promise.resolve() : removeBootstrap(options.bootstrapFile)),
    }),
    ...options.routes,
    openApiRoute(() => routes),
  ];
  const givenToken = options.givenToken ?? null;
  const parts: Parts = {
    router: new Router(routes),
    hostAllowed: makeHostCheck(host, options.hostNames ?? []),
    authority: { services, cookie, secure, givenDigest: givenToken === null ? null : services.adminDigest(givenToken) },
    answerMs: options.answerMs ?? 30_000,
    bodyMs: options.bodyMs ?? bodyMsUsual,
    onBug,
  };
  void prepareVerification().catch((error: unknown) => onBug(error, ""));
  const server = Bun.serve({
    hostname: host,
    port: options.port,
    reusePort: options.reusePort ?? false,
    idleTimeout: 60,
    // Our own bound answers in the envelope.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: (request, self) => handle(request, self.requestIP(request)?.address ?? "unknown", parts),
    error: (error) => {
      onBug(error, "");
      return refuse(internalError, ownHeaders(requestIdOf(null), secure));
    },
  });
  return {
    url: `http://${server.hostname?.includes(":") ? `[${server.hostname}]` : server.hostname}:${server.port}`,
    routes,
    stopListening: async () => {
      await server.stop(false);
    },
    close: async () => {
      await server.stop(true);
    },
  };
}

interface Parts {
  readonly router: Router;
  readonly hostAllowed: (header: string | null) => boolean;
  readonly authority: Authority;
  readonly answerMs: number;
  readonly bodyMs: number;
  readonly onBug: (error: unknown, requestId: string) => void;
}

async function handle(request: Request, address: string, parts: Parts): Promise<Response> {
  const requestId = requestIdOf(request.headers.get("x-request-id"));
  const headers = ownHeaders(requestId, parts.authority.secure);
  if (!parts.hostAllowed(request.headers.get("host"))) return refuse(hostNotAllowed, headers);
  const { path, query } = targetOf(request.url);
  const found = parts.router.find(request.method, path);
  if (found.kind === "none") return refuse(unknownRoute(request.method, path), headers);
  if (found.kind === "method") {
    headers.set("allow", found.allow);
    return refuse(wrongMethod(request.method, path), headers);
  }
  const { route, params } = found;
  try {
    const caller = await authorise(request.headers, route, parts.authority);
    if (caller instanceof Refusal) return refuse(caller, headers);
    const ifMatch = request.headers.get("if-match");
    if (ifMatch !== null && !route.conditional && route.method !== "GET") return refuse(unconditional, headers);
    const input = await readInput(request, query, route, parts.bodyMs);
    if (input instanceof Refusal) return refuse(input, headers);
    const answering = route.handle({
      ...input,
      params,
      caller,
      ifMatch,
      role: caller.kind === "stranger" ? null : caller.role,
      actor: { kind: "admin", name: nameOf(caller), address },
      services: parts.authority.services,
      requestId,
      address,
    });
    return respond(await within(answering, parts.answerMs, route), route.status, headers);
  } catch (error) {
    const refusal = troubleRefusal(error);
    if (refusal === null) parts.onBug(error, requestId);
    return refuse(refusal ?? internalError, headers);
  }
}

async function readInput(
  request: Request,
  query: string,
  route: Route,
  bodyMs: number,
): Promise<{ query: unknown; body: unknown } | Refusal> {
  const given = readQuery(query);
  if (given instanceof Refusal) return given;
  const parameters = checkInput(route.query ?? nothing, given, "parameter");
  if (parameters instanceof Refusal) return parameters;
  if (route.body === null) return { query: parameters.value, body: {} };
  const sent = await readJsonBody(request, bodyMs);
  if (sent instanceof Refusal) return sent;
  const body = checkInput(route.body, sent.value, "field");
  return body instanceof Refusal ? body : { query: parameters.value, body: body.value };
}

const nothing = z.strictObject({});

/** The audit trail tells a token from an account of the same name. */
function nameOf(caller: Caller): string {
  if (caller.kind === "stranger") return "stranger";
  return caller.kind === "token" ? `token:${caller.name}` : caller.name;
}

/** A question that takes too long can be asked for less; a change that does may still happen. */
function within(answering: Promise<Answer<unknown>> | Answer<unknown>, answerMs: number, { method }: Route): Promise<Answer<unknown>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(method === "GET" ? slowQuestion : slowChange), answerMs);
    Promise.resolve(answering)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

const slowQuestion = new Refusal(
  400,
  "query_too_slow",
  "The answer takes too long. Ask for less: a shorter time, fewer groups, a smaller page.",
);
const slowChange = new Refusal(
  504,
  "timed_out",
  "The store takes too long. The change may or may not have happened: look before you repeat it.",
);

const unconditional = new Refusal(400, "invalid_value", "This change cannot be bound to a state: send it without 'If-Match'.", "if-match");

const hostNotAllowed = new Refusal(
  421,
  "host_not_allowed",
  "This host name is not one of this admin listener's. Use the address it listens on, or add the name to its configuration.",
);

function unknownRoute(method: string, path: string): Refusal {
  const shown = `${method.slice(0, 16)} ${path.slice(0, 200)}`;
  return new Refusal(404, "unknown_route", `Unknown request URL: ${shown}. GET /admin/api/openapi.json lists what there is.`);
}

function wrongMethod(method: string, path: string): Refusal {
  return new Refusal(405, "method_not_allowed", `Method ${method.slice(0, 16)} is not allowed for ${path.slice(0, 200)}.`);
}
