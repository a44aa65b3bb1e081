import type { z } from "zod";
import type { Actor, Role } from "../gateway/storage.ts";
import type { Caller } from "./authorise.ts";
import type { AdminError } from "./admin-error.ts";
import type { Services } from "./services.ts";

/**
 * Who may ask. There is no default: a route without it does not compile. `public` routes look after themselves; a viewer reads;
 * whatever changes something needs an admin, except for what somebody does to their own session or password.
 */
export type Access = "public" | "viewer" | "admin";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One thing the admin API does. The router, the authority and the OpenAPI document all read this and nothing else. */
export interface AdminRoute {
  readonly method: Method;
  /** Exact, except for a whole segment in braces: `/admin/api/keys/{id}`. */
  readonly path: string;
  readonly access: Access;
  /** One sentence for the document. */
  readonly summary: string;
  readonly query: z.ZodObject | null;
  readonly body: z.ZodObject | null;
  readonly answer: z.ZodType;
  /** Of an answer that is not a refusal. */
  readonly status: number;
  /** The media type of the `TextResult` it can give instead, such as `text/csv`. */
  readonly text: string | null;
  /** It changes something, but only of the caller's own: a viewer may. */
  readonly own: boolean;
  /** It heeds `if-match`. Any other that changes something refuses that header: it promises what nobody would keep. */
  readonly conditional: boolean;
  handle(context: Context<unknown, unknown, Readonly<Record<string, string>>>): Promise<RouteResult<unknown>> | RouteResult<unknown>;
}

export interface Context<Query, Body, Params> {
  /** The segments in braces, percent-decoded; never empty. */
  readonly params: Params;
  /** As the schema gives it, after its defaults and changes. */
  readonly query: Query;
  readonly body: Body;
  /** Whom the audit trail will name. On a public route this is a stranger from an address. */
  readonly actor: Actor;
  /** Null on public routes only. */
  readonly role: Role | null;
  readonly caller: Caller;
  /** The header `if-match`, on routes that heed it. */
  readonly ifMatch: string | null;
  readonly services: Services;
  readonly requestId: string;
  /** The other end of the connection. What proxies claim is not asked. */
  readonly address: string;
}

/** What a handler gives: a value of its answer's schema, a refusal, or one of the two special forms below. */
export type RouteResult<Value> = Value | AdminError | TextResult | ResultWithHeaders<Value>;

/** An answer that is not JSON. */
export class TextResult {
  constructor(
    readonly contentType: string,
    readonly text: string,
    /** Browsers offer to save it under this name. Plain ASCII. */
    readonly fileName: string | null = null,
  ) {}
}

/** A JSON answer with headers of its own, such as a cookie. */
export class ResultWithHeaders<Value> {
  constructor(
    readonly value: Value,
    readonly headers: Readonly<Record<string, string>>,
  ) {}
}

/**
 * Makes a route, with the types of its handler taken from its path and schemas:
 *
 *     route({
 *       method: "PATCH", path: "/admin/api/keys/{id}", access: "admin", summary: "Changes a key.",
 *       body: z.strictObject({ note: z.string().max(1000).optional() }), answer: keySchema,
 *       handle: async ({ params, body, actor, services }) => …,
 *     })
 *
 * Unknown fields of a body and unknown parameters are refused by name; for objects inside of a body use `z.strictObject`.
 * A parameter of a query arrives as one string; use `z.coerce.number()` and the like.
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
    own: definition.own ?? false,
    conditional: definition.conditional ?? false,
    // The listener has parsed both with the very schemas that gave these types.
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
  readonly own?: boolean;
  readonly conditional?: boolean;
  readonly handle: (
    context: Context<z.output<QuerySchema>, z.output<BodySchema>, PathParams<Path>>,
  ) => Promise<RouteResult<z.input<AnswerSchema>>> | RouteResult<z.input<AnswerSchema>>;
}

/** The names in braces: `{ id: string }` of `/admin/api/keys/{id}`. */
type PathParams<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathParams<Rest>
  : unknown;
