import type { z } from "zod";
import type { Actor, Role } from "../gateway/storage.ts";
import type { Caller } from "./authorise.ts";
import type { AdminError } from "./admin-error.ts";
import type { Services } from "./services.ts";

/**
 * Who may use a route. There is no default: a route without it does not compile. `public` routes check their callers themselves. A viewer
 * may read; changes need an admin, except for changes of the caller's own session or password.
 */
export type Access = "public" | "viewer" | "admin";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One route of the admin API. Routing, authorisation and the OpenAPI document all use this description. */
export interface AdminRoute {
  readonly method: Method;
  /** Matched exactly, except for segments in braces: `/admin/api/keys/{id}`. */
  readonly path: string;
  readonly access: Access;
  /** One sentence for the OpenAPI document. */
  readonly summary: string;
  readonly query: z.ZodObject | null;
  readonly body: z.ZodObject | null;
  readonly answer: z.ZodType;
  /** The status of a successful answer. */
  readonly status: number;
  /** The media type of the `TextResult` that it can return instead, such as `text/csv`. */
  readonly text: string | null;
  /** The longest time for its answer; null for that of the listener. */
  readonly answerMs: number | null;
  /** The longest body; null for that of all routes. */
  readonly bodyBytesMax: number | null;
  /** It only changes what belongs to the caller, so a viewer may use it. */
  readonly own: boolean;
  /** Group admins may use it as well: its `services` then see their group alone. */
  readonly scoped: boolean;
  /** It supports `if-match`. Other routes that change something reject this header, because they would ignore its condition. */
  readonly conditional: boolean;
  handle(context: Context<unknown, unknown, Readonly<Record<string, string>>>): Promise<RouteResult<unknown>> | RouteResult<unknown>;
}

export interface Context<Query, Body, Params> {
  /** The values of the segments in braces, percent-decoded and never empty. */
  readonly params: Params;
  /** The output of the schema, with its defaults and transformations. */
  readonly query: Query;
  readonly body: Body;
  /** For the audit log. On a public route only the address is known. */
  readonly actor: Actor;
  /** Null on public routes only. */
  readonly role: Role | null;
  readonly caller: Caller;
  /** The header `if-match`, on routes that support it. */
  readonly ifMatch: string | null;
  /** For the routes of the sign-in, which have a cookie of their own. */
  readonly headers: Headers;
  readonly services: Services;
  readonly requestId: string;
  /** The peer address of the connection, or the one that a trusted proxy names. Anybody else could write anything into such a header. */
  readonly address: string;
  /** Aborted when the caller has left. */
  readonly signal: AbortSignal;
}

/** What a handler returns: a value of the answer's schema, an error, or one of the special forms below. */
export type RouteResult<Value> = Value | AdminError | TextResult | FileResult | EventResult | RelayedResult | ResultWithHeaders<Value>;

/** A header with several values is sent several times, as cookies must be. */
export type AnswerHeaders = Readonly<Record<string, string | readonly string[]>>;

/** An answer that is not JSON. */
export class TextResult {
  constructor(
    readonly contentType: string,
    readonly text: string,
    /** The file name for browsers, in ASCII. */
    readonly fileName: string | null = null,
    readonly headers: AnswerHeaders = {},
  ) {}
}

/**
 * An answer that goes on: server-sent events. `start` is given a function that sends one, and returns one that stops, or why there
 * are no events. What a slow reader has not taken yet is bounded: then events are left out.
 */
export class EventResult {
  constructor(readonly start: (send: (data: string) => void) => (() => void) | AdminError) {}
}

/** A file to save. */
export class FileResult {
  constructor(
    readonly content: Blob,
    /** In ASCII. */
    readonly fileName: string,
  ) {}
}

/** The answer of the data plane, passed on as it comes: its status, its type and its body. */
export class RelayedResult {
  constructor(readonly response: Response) {}
}

/** A JSON answer with headers of its own, such as a cookie. */
export class ResultWithHeaders<Value> {
  constructor(
    readonly value: Value,
    readonly headers: AnswerHeaders,
  ) {}
}

/**
 * Makes a route. The types of its handler follow from its path and its schemas:
 *
 *     route({
 *       method: "PATCH", path: "/admin/api/keys/{id}", access: "admin", summary: "Changes a key.",
 *       body: z.strictObject({ note: z.string().max(1000).optional() }), answer: keySchema,
 *       handle: async ({ params, body, actor, services }) => …,
 *     })
 *
 * Unknown fields of a body and unknown parameters are refused by name; for objects inside a body use `z.strictObject`.
 * A query parameter arrives as a string; use `z.coerce.number()` and the like.
 */
export function route<
  Path extends string,
  AnswerSchema extends z.ZodType,
  QuerySchema extends z.ZodObject = z.ZodObject<Record<string, never>>,
  BodySchema extends z.ZodObject = z.ZodObject<Record<string, never>>,
>(definition: Definition<Path, AnswerSchema, QuerySchema, BodySchema>): AdminRoute {
  const { handle } = definition;
  return {
    method: definition.method,
    path: definition.path,
    access: definition.access,
    summary: definition.summary,
    query: definition.query?.strict() ?? null,
    body: definition.body?.strict() ?? null,
    answer: definition.answer,
    status: definition.status ?? 200,
    text: definition.text ?? null,
    answerMs: definition.answerMs ?? null,
    bodyBytesMax: definition.bodyBytesMax ?? null,
    own: definition.own ?? false,
    scoped: definition.scoped ?? false,
    conditional: definition.conditional ?? false,
    // The listener has parsed both with the schemas that these types come from.
    handle: (context) => handle(context as Context<z.output<QuerySchema>, z.output<BodySchema>, PathParams<Path>>),
  };
}

interface Definition<Path extends string, AnswerSchema extends z.ZodType, QuerySchema extends z.ZodObject, BodySchema extends z.ZodObject> {
  readonly method: Method;
  readonly path: Path;
  readonly access: Access;
  readonly summary: string;
  readonly query?: QuerySchema;
  readonly body?: BodySchema;
  readonly answer: AnswerSchema;
  readonly status?: number;
  readonly text?: string;
  readonly answerMs?: number;
  readonly bodyBytesMax?: number;
  readonly own?: boolean;
  readonly scoped?: boolean;
  readonly conditional?: boolean;
  readonly handle: (
    context: Context<z.output<QuerySchema>, z.output<BodySchema>, PathParams<Path>>,
  ) => Promise<RouteResult<z.input<AnswerSchema>>> | RouteResult<z.input<AnswerSchema>>;
}

/** The names in braces: `{ id: string }` for `/admin/api/keys/{id}`. */
type PathParams<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathParams<Rest>
  : unknown;

/** The condition of `if-match`, if there is one: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1 */
export function expectedRevision(ifMatch: string | null): ((revision: string) => boolean) | undefined {
  if (ifMatch === null) return undefined;
  return (revision) => ifMatch.trim() === "*" || ifMatch.split(",").some((one) => one.trim() === `"${revision}"`);
}

/** An answer with its revision in the header `etag`. Null: it cannot be changed here. */
export function withRevision<Value>(value: Value, revision: string | null): ResultWithHeaders<Value> {
  return new ResultWithHeaders(value, revision === null ? {} : { etag: `"${revision}"` });
}
