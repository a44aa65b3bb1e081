import type { JsonObject } from "../operations/json.ts";
import type { UpstreamRequest } from "./dialect.ts";
import { objectOf, parseUntrusted } from "./untrusted.ts";

/** The fields of a request body that is in memory; null for any other. */
export function fieldsOf({ body }: UpstreamRequest): JsonObject | null {
  return body instanceof Uint8Array ? objectOf(parseUntrusted(new TextDecoder().decode(body), body)) : null;
}

/** The same request with another body, to another URL. */
export function countRequest(chat: UpstreamRequest, url: string, fields: JsonObject): UpstreamRequest {
  return { ...chat, url, body: new TextEncoder().encode(JSON.stringify(fields)) };
}

/** The number under a name in the answer; null if it is no count. */
export function countIn(body: string, name: string): number | null {
  const count = objectOf(parseUntrusted(body, new TextEncoder().encode(body)))?.[name];
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : null;
}
