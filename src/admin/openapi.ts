import { z } from "zod";
import { route, type AdminRoute } from "./route.ts";

/** The OpenAPI 3.1 document of a table of routes. The listener serves from the same table, so the two cannot differ. */
export function openApiDocument(routes: readonly AdminRoute[], version: string): Readonly<Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const each of routes) (paths[each.path] ??= {})[each.method.toLowerCase()] = operation(each);
  return {
    openapi: "3.1.0",
    info: { title: "Sluice admin API", version, license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    servers: [{ url: "/" }],
    paths,
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "An admin token: `Authorization: Bearer sk-gwa_…`." },
        session: {
          type: "apiKey",
          in: "cookie",
          name: "sluice_session",
          description:
            "Set by POST /admin/api/login; behind TLS it is called `__Host-sluice_session`. Requests that change something also need the header `x-csrf-token`.",
        },
      },
      schemas: { Error: errorSchema },
    },
  };
}

/** Serves the document of all routes, including its own. */
export function openApiRoute(all: () => readonly AdminRoute[]): AdminRoute {
  return route({
    method: "GET",
    path: "/admin/api/openapi.json",
    access: "viewer",
    summary: "This document.",
    answer: z.looseObject({ openapi: z.literal("3.1.0"), paths: z.record(z.string(), z.record(z.string(), z.unknown())) }),
    handle: ({ services }) =>
      openApiDocument(all(), services.version) as { openapi: "3.1.0"; paths: Record<string, Record<string, unknown>> },
  });
}

const errorSchema = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "code", "param", "request_id"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        code: { type: "string" },
        param: { type: ["string", "null"] },
        request_id: { type: "string" },
      },
    },
  },
};

function operation(each: AdminRoute): Readonly<Record<string, unknown>> {
  const query = each.query === null ? [] : queryParameters(each.query);
  const parameters = [...pathParameters(each.path), ...query, ...(each.conditional ? [ifMatch] : [])];
  const jsonAnswer = { "application/json": { schema: jsonSchema(each.answer, "output") } };
  const onlyText = each.text !== null && each.answer instanceof z.ZodString;
  const textAnswer = each.text === null ? {} : { [each.text]: { schema: { type: "string" } } };
  return {
    operationId: operationId(each),
    summary: each.summary,
    "x-sluice-access": each.access,
    ...(each.scoped ? { "x-sluice-group-admins": true } : {}),
    security: each.access === "public" ? [] : [{ token: [] }, { session: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(each.body === null
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: jsonSchema(each.body, "input") } } } }),
    responses: {
      [String(each.status)]: { description: "Done.", content: onlyText ? textAnswer : { ...jsonAnswer, ...textAnswer } },
      default: { description: "Refused.", content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } } },
    },
  };
}

const ifMatch = {
  name: "if-match",
  in: "header",
  required: false,
  schema: { type: "string" },
  description: "An `etag`, in quotes: the change is refused with 412 if what it is about has changed since.",
};

function pathParameters(path: string): readonly object[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: "path", required: true, schema: { type: "string" } }));
}

function queryParameters(query: z.ZodObject): readonly object[] {
  const { properties = {}, required = [] } = jsonSchema(query, "input");
  return Object.entries(properties).map(([name, schema]) => ({ name, in: "query", required: required.includes(name), schema }));
}

/** JSON Schema 2020-12, as OpenAPI 3.1 uses it. */
function jsonSchema(schema: z.ZodType, io: "input" | "output"): z.core.JSONSchema.BaseSchema {
  const { $schema: _, "~standard": __, ...rest } = z.toJSONSchema(schema, { target: "draft-2020-12", io, unrepresentable: "any" });
  return rest;
}

/** For example `patchAccountsByName` for `PATCH /admin/api/accounts/{name}`. */
function operationId({ method, path }: AdminRoute): string {
  const words = path
    .replace(/^\/(admin\/api\/)?/, "")
    .split(/[/.-]/)
    .map((word) => (word.startsWith("{") ? `By${capital(word.slice(1, -1))}` : capital(word)));
  return method.toLowerCase() + words.join("");
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
