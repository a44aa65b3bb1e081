import { type JsonLimits, scanJson } from "../operations/json.ts";

/**
 * Parses what an upstream sent, or returns `undefined`. The engine's own parser is the quickest there is on ordinary
 * answers and takes seconds on hostile nesting, so a long text has its depth checked first, in linear time, where it lies
 * in the bytes it came in.
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

/** Answers may hold many log probabilities; only their depth needs a bound. */
const limits: JsonLimits = { depthMax: 512, membersMax: Infinity, tokensMax: Infinity };
