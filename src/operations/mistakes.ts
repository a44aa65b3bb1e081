import { failure, type Failure } from "./failure.ts";
import type { JsonScan, JsonMember } from "./json.ts";

/** A mistake in a client's request, with the messages and codes of the OpenAI API. */
export function mistake(message: string, code: string | null, param: string | null): Failure {
  return failure("invalid_request", message, { message, status: 400, type: "invalid_request_error", code, param });
}

export function missing(param: string): Failure {
  return mistake(`Missing required parameter: '${param}'.`, "missing_required_parameter", param);
}

export function empty(param: string): Failure {
  return mistake(`'${param}' must not be empty.`, "invalid_value", param);
}

export function wrongType(param: string, expected: string): Failure {
  return mistake(`Invalid type for '${param}': expected ${expected}.`, "invalid_type", param);
}

/** Why a body is not a JSON object; null if it is. */
export function bodyMistake(document: JsonScan): Failure | null {
  if (!document.ok) {
    if (document.reason === "too_complex")
      return mistake(`The request body is too complex: ${document.message}.`, "json_too_complex", null);
    return mistake(`The request body is not valid JSON: ${document.message}.`, null, null);
  }
  return document.kind === "object" ? null : mistake("The request body must be a JSON object.", "invalid_type", null);
}

export function modelMistake(model: string): Failure | null {
  if (model === "") return empty("model");
  // An unpaired surrogate cannot be written to the log, and no model name contains one.
  if (!model.isWellFormed()) return mistake("'model' is not well-formed Unicode.", "invalid_value", "model");
  if (model.length <= modelLengthMax) return null;
  return mistake(`'model' is longer than ${modelLengthMax} characters.`, "string_above_max_length", "model");
}

const modelLengthMax = 512;

/** An optional field that is `null` counts as absent. */
export function present(member: JsonMember | undefined): JsonMember | undefined {
  return member?.kind === "null" ? undefined : member;
}

/**
 * Rejects a field that the gateway reads in another spelling, such as `Model` or `MAX_TOKENS`. Some upstreams ignore case, and would
 * use a value that the gateway has neither checked nor counted.
 */
export function misspelled(members: readonly JsonMember[], names: ReadonlySet<string>): Failure | null {
  for (const { key } of members) {
    const wrong = misspelledName(key, names);
    if (wrong !== null) return wrong;
  }
  return null;
}

export function misspelledName(key: string, names: ReadonlySet<string>): Failure | null {
  if (key.length > nameLengthMax || !unusual.test(key)) return null;
  const name = folded(key);
  if (name === key || !names.has(name)) return null;
  return mistake(`Unknown parameter: '${key}'. Names are case-sensitive: did you mean '${name}'?`, "unknown_parameter", name);
}

/** Upper case turns the long s (U+017F) into an s, and lower case turns the Kelvin sign (U+212A) into a k. */
function folded(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/** Anything but lower-case letters, digits and underscores. */
const unusual = /[^a-z\d_]/;
/** Longer than all of these names. */
const nameLengthMax = 32;
