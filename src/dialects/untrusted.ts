import { type JsonLimits, scanJson } from "../operations/json.ts";

/**
 * Parses JSON of an upstream, or returns `undefined`. `JSON.parse` is the fastest parser for usual answers, but takes seconds for hostile
 * nesting, so the depth of a long text is checked first, in linear time.
 */
export function parseUntrusted(text: string, bytes: Uint8Array, from = 0, to = bytes.length): unknown {
  if (text.length > trustedLength && !scanJson(bytes.subarray(from, to), limits).ok) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const trustedLength = 32 * 1024;

/** Answers may contain many log probabilities, so only their depth is limited. */
const limits: JsonLimits = { depthMax: 512, membersMax: Infinity, tokensMax: Infinity };
