import { requestError, type RequestError } from "./request-error.ts";

/** The members of a request. `null` means the same as a missing member. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reads a JSON object from the request's body. */
export async function readFields(request: Request): Promise<Fields | RequestError> {
  let value: unknown;
  try {
    value = JSON.parse(await request.text());
  } catch {
    return requestError(400, "The body is not valid JSON.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return requestError(400, "The body must be a JSON object.");
  return value as Fields;
}

/** The first error of several checks, or null. */
export function firstError(checks: readonly (RequestError | null)[]): RequestError | null {
  return checks.find((found) => found !== null) ?? null;
}

/** The engine's own limit. The gateway enforces stricter ones. */
export const textCharactersMax = 1_000_000;

export function requireText(fields: Fields, name: string, charactersMax = textCharactersMax): RequestError | null {
  const value = fields[name];
  if (value == null) return requestError(400, `\`${name}\` is missing.`, { param: name, code: "missing_required_parameter" });
  if (typeof value !== "string") return requestError(400, `\`${name}\` must be a string.`, { param: name, code: "invalid_type" });
  if (hasAtMost(value, charactersMax)) return null;
  return requestError(400, `\`${name}\` must have at most ${charactersMax} characters.`, { param: name, code: "string_above_max_length" });
}

/** Counts code points, not UTF-16 code units. */
function hasAtMost(text: string, charactersMax: number): boolean {
  if (text.length <= charactersMax) return true;
  if (text.length > 2 * charactersMax) return false;
  let characters = 0;
  for (const _ of text) characters++;
  return characters <= charactersMax;
}

export function checkNumber(fields: Fields, name: string, least: number, most: number): RequestError | null {
  const value = fields[name];
  if (value == null) return null;
  if (typeof value !== "number") return requestError(400, `\`${name}\` must be a number.`, { param: name, code: "invalid_type" });
  if (value >= least && value <= most) return null;
  return requestError(400, `\`${name}\` must be from ${least} to ${most}.`, { param: name, code: "invalid_value" });
}

export function checkInteger(fields: Fields, name: string, least: number): RequestError | null {
  const value = fields[name];
  if (value == null) return null;
  if (!Number.isInteger(value)) return requestError(400, `\`${name}\` must be an integer.`, { param: name, code: "invalid_type" });
  if (Number(value) >= least) return null;
  return requestError(400, `\`${name}\` must be at least ${least}.`, { param: name, code: "integer_below_min_value" });
}

export function checkBoolean(fields: Fields, name: string): RequestError | null {
  const value = fields[name];
  if (value == null || typeof value === "boolean") return null;
  return requestError(400, `\`${name}\` must be true or false.`, { param: name, code: "invalid_type" });
}

/** For parameters that the model cannot honour. */
export function unsupported(param: string, message: string): RequestError {
  return requestError(400, message, { param, code: "unsupported_parameter" });
}
