import { StorageError } from "../gateway/storage.ts";
import { AdminError } from "./admin-error.ts";
import {
  FileResult,
  RelayedResult,
  ResultWithHeaders,
  TextResult,
  type AnswerHeaders,
  type EventResult,
  type RouteResult,
} from "./route.ts";

/** Turns the result of a handler into a response. */
export function respond(answer: Exclude<RouteResult<unknown>, EventResult>, status: number, headers: Headers): Response {
  if (answer instanceof AdminError) return errorResponse(answer, headers);
  if (answer instanceof TextResult) {
    addHeaders(headers, answer.headers);
    headers.set("content-type", answer.contentType);
    if (answer.fileName !== null) headers.set("content-disposition", attachment(answer.fileName));
    return new Response(answer.text, { status, headers });
  }
  if (answer instanceof FileResult) {
    headers.set("content-type", "application/octet-stream");
    headers.set("content-disposition", attachment(answer.fileName));
    return new Response(answer.content, { status, headers });
  }
  if (answer instanceof RelayedResult) return relayed(answer.response, headers);
  if (answer instanceof ResultWithHeaders) {
    addHeaders(headers, answer.headers);
    return json(answer.value, status, headers);
  }
  return json(answer, status, headers);
}

function attachment(fileName: string): string {
  return `attachment; filename="${fileName.replace(/[^\w.-]/g, "_")}"`;
}

/** Headers of the data plane say nothing here, except for the id of the call. */
function relayed(response: Response, headers: Headers): Response {
  const type = response.headers.get("content-type") ?? "";
  headers.set("content-type", harmlessType.test(type) ? type : "application/octet-stream");
  headers.set("x-sluice-request", response.headers.get("x-request-id") ?? "");
  return new Response(response.body, { status: response.status, headers });
}

/** An upstream may decide the type of an answer. A document on this origin would be one of the console. */
const harmlessType = /^(?:application\/(?:json|x-subrip)|text\/(?:event-stream|plain|vtt)|audio\/[\w.+-]+)(?:;[ \w=.-]*)?$/i;

function addHeaders(headers: Headers, added: AnswerHeaders): void {
  for (const [name, values] of Object.entries(added)) {
    headers.delete(name);
    for (const value of typeof values === "string" ? [values] : values) headers.append(name, value);
  }
}

export function errorResponse({ message, code, param, status, headers: own }: AdminError, headers: Headers): Response {
  for (const [name, value] of Object.entries(own)) headers.set(name, value);
  const error = { message, type: typeOf(status), code, param, request_id: headers.get("x-request-id") ?? "" };
  return json({ error }, status, headers);
}

function json(value: unknown, status: number, headers: Headers): Response {
  headers.set("content-type", "application/json");
  return new Response(`${JSON.stringify(value)}\n`, { status, headers });
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  if (status === 503 || status === 504 || status === 507) return "service_unavailable_error";
  return status >= 500 ? "api_error" : "invalid_request_error";
}

/** An error of the store as an error of the API; null for a bug. */
export function storageError(error: unknown): AdminError | null {
  if (!(error instanceof StorageError)) return null;
  switch (error.kind) {
    case "unavailable":
      return new AdminError(
        503,
        "store_unavailable",
        "The store cannot be reached at the moment. Try again soon. If this was a change, check first whether it was made.",
        null,
        {
          "retry-after": "1",
        },
      );
    case "full":
      return new AdminError(507, "storage_full", "The disk of the store is full. Free some space, then try again.");
    case "conflict":
      return new AdminError(409, "conflict", error.message);
    case "invalid":
      return new AdminError(400, "invalid_value", error.message);
    case "missing":
      return new AdminError(404, "not_found", error.message);
    case "damaged":
      return null;
  }
}

export const internalError = new AdminError(
  500,
  "internal_error",
  "An internal error occurred. The gateway's log has the details under this request id.",
);
