import { isJsonObject, type JsonLimits, type JsonObject, scanJson } from "../operations/json.ts";

/**
 * Parses JSON of an upstream, or returns `undefined`. `JSON.parse` is the fastest parser for usual answers, but takes seconds for hostile
 * nesting, so the depth of a long text is checked first, in linear time.
 */
export function parseUntrusted(text: string, bytes: Uint8Array, from = 0, to = bytes.length): unknown {
  if (text.length > trustedLength && !scanJson(bytes.subarray(from, to), depthLimits).ok) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const trustedLength = 32 * 1024;

/** Answers may contain many log probabilities, and arguments are as long as their request, so only the depth is limited. */
export const depthLimits: JsonLimits = { depthMax: 512, membersMax: Infinity, tokensMax: Infinity };

/** The values of an upstream's JSON, which may be of any type. What is of another type counts as absent. */
export function objectOf(value: unknown): JsonObject | null {
  return isJsonObject(value) ? value : null;
}

/** The objects in a list; anything else in it is left out. */
export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? (value as readonly unknown[]).filter(isJsonObject) : [];
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Null where the text is empty, too. */
export function filledTextOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export function numberOf(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
