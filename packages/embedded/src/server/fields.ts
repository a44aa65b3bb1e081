import { refusal, type Refusal } from "./refusal.ts";

/** The members of a request. `null` means the same as absence. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reads a JSON object from the request's body. */
export async function readFields(request: Request): Promise<Fields | Refusal> {
  let value: unknown;
  try {
    value = JSON.parse(await request.text());
  } catch {
    return refusal(400, "The body is not valid JSON.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return refusal(400, "The body must be a JSON object.");
  return value as Fields;
}

/** The first refusal among several checks, or null when there is nothing to refuse. */
export function firstRefusal(checks: readonly (Refusal | null)[]): Refusal | null {
  return checks.find((found) => found !== null) ?? null;
}

/** The engine's own bound on a text: whoever asks the engine has bounds that are closer. */
export const textCharactersMax = 1_000_000;

export function requireText(fields: Fields, name: string, charactersMax = textCharactersMax): Refusal | null {
  const value = fields[name];
  if (value == null) return refusal(400, `\`${name}\` is missing.`, { param: name, code: "missing_required_parameter" });
  if (typeof value !== "string") return refusal(400, `\`${name}\` must be a string.`, { param: name, code: "invalid_type" });
  if (hasAtMost(value, charactersMax)) return null;
  return refusal(400, `\`${name}\` must have at most ${charactersMax} characters.`, { param: name, code: "string_above_max_length" });
}

/** Counts characters as people do, not the halves that some of them are stored in. */
function hasAtMost(text: string, charactersMax: number): boolean {
  if (text.length <= charactersMax) return true;
  if (text.length > 2 * charactersMax) return false;
  let characters = 0;
  for (const _ of text) characters++;
  return characters <= charactersMax;
}

export function checkNumber(fields: Fields, name: string, least: number, most: number): Refusal | null {
  const value = fields[name];
  if (value == null) return null;
  if (typeof value !== "number") return refusal(400, `\`${name}\` must be a number.`, { param: name, code: "invalid_type" });
  if (value >= least && value <= most) return null;
  return refusal(400, `\`${name}\` must be from ${least} to ${most}.`, { param: name, code: "invalid_value" });
}

export function checkInteger(fields: Fields, name: string, least: number): Refusal | null {
  const value = fields[name];
  if (value == null) return null;
  if (!Number.isInteger(value)) return refusal(400, `\`${name}\` must be an integer.`, { param: name, code: "invalid_type" });
  if (Number(value) >= least) return null;
  return refusal(400, `\`${name}\` must be at least ${least}.`, { param: name, code: "integer_below_min_value" });
}

export function checkBoolean(fields: Fields, name: string): Refusal | null {
  const value = fields[name];
  if (value == null || typeof value === "boolean") return null;
  return refusal(400, `\`${name}\` must be true or false.`, { param: name, code: "invalid_type" });
}

/** A parameter that would change the answer, which this model cannot obey. */
export function unsupported(param: string, message: string): Refusal {
  return refusal(400, message, { param, code: "unsupported_parameter" });
}
