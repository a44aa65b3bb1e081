import type { Ports } from "../gateway/ports.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { baseUrlMistake, routeOf, servedRoutes } from "./routes.ts";
import { severalHosts } from "../net/server/request-parser.ts";
import { noMemory } from "./overload/load-shed.ts";

/** The errors that the data plane reports before a call exists. Each message says how to fix the request. */
export const keyInUrl = requestError(
  400,
  "key_in_url",
  "API keys do not belong in a URL. Send yours as 'Authorization: Bearer <key>', or in the header of its own that your client's API has " +
    "('x-api-key', 'x-goog-api-key'), and replace it: it may have been logged.",
);

export const notJson = requestError(415, "unsupported_media_type", "The request body must be JSON: send 'Content-Type: application/json'.");

export const unsupportedEncoding = requestError(
  415,
  "unsupported_encoding",
  "This 'Content-Encoding' is not supported: send the body with gzip, deflate, br or zstd, with two of them at most, or without any.",
);

export function bodyTooLarge(bytesMax: number): Failure {
  return failure("too_large", "the request body is too large", {
    message: `The request body is larger than ${bytesMax} bytes.`,
    status: 413,
  });
}

export const noRoomForBody = failure("saturated", "no memory for a large body", { message: noMemory });

export const tooManyInFlight = failure("saturated", "too many calls in flight");

export const noUpgrade = requestError(426, "upgrade_required", "This path is served over HTTP only: send the request as POST.");

export const internalError = failure("internal", "a bug");

/** The request could not be parsed. */
export function unreadable(problem: string, status: number): Failure {
  const message = `The request could not be read: ${problem}.`;
  if (problem === severalHosts) return requestError(status, "ambiguous_host", message);
  if (status === 505) return requestError(status, "http_version_not_supported", message);
  if (status === 431) return requestError(status, "headers_too_large", message);
  return status === 408 ? requestError(status, "request_timeout", message) : requestError(status, "malformed_request", message);
}

export function unknownRoute(method: string, path: string): Failure {
  const hint = baseUrlMistake(path);
  const there = `The routes are ${servedRoutes.join(", ")}.`;
  const message = [`Unknown request URL: ${method.slice(0, 16)} ${path.slice(0, 200)}.`, ...(hint === null ? [] : [hint]), there].join(" ");
  return requestError(404, "unknown_route", message);
}

export function wrongMethod(method: string, path: string): Failure {
  const allowed = routeOf(path)?.method;
  const hint = allowed === undefined ? "" : `: use ${allowed}`;
  return requestError(405, null, `Method ${method.slice(0, 16)} is not allowed for ${path.slice(0, 200)}${hint}.`);
}

/** `asTyped` writes the commands in a text as the operator types them. */
export function unknownModel(model: string, asTyped: Ports["asTyped"]): Failure {
  const hint = localHint(model);
  return failure("invalid_request", "unknown model", {
    message: `The model '${model.slice(0, 200)}' does not exist here. GET /v1/models lists what this key may use.${asTyped?.(hint) ?? hint}`,
    status: 404,
    type: "invalid_request_error",
    code: "model_not_found",
    param: "model",
  });
}

/** The models of the gateway's own machine are optional packages. */
function localHint(model: string): string {
  return model.startsWith("embedded/")
    ? " On the gateway's machine, `sluice models list` says whether it is installed, and how to get it."
    : "";
}

export function forbiddenModel(model: string): Failure {
  return failure("invalid_request", "model not allowed", {
    message: `This key may not use the model '${model.slice(0, 200)}'. GET /v1/models lists what it may use.`,
    status: 403,
    type: "permission_error",
    code: "model_not_allowed",
    param: "model",
  });
}

export function forbiddenOperation(operation: string): Failure {
  return failure("invalid_request", "operation not allowed", {
    message: `This key may not be used for ${operation}.`,
    status: 403,
    type: "permission_error",
    code: "operation_not_allowed",
  });
}

function requestError(status: number, code: string | null, message: string): Failure {
  return failure("invalid_request", message, { message, status, type: "invalid_request_error", code });
}
