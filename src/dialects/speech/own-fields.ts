import { isJsonObject } from "../../operations/json.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import { speechField } from "./foreign-speech.ts";

/** The client's fields that the upstream has under the same name. They are passed on as they are, and the upstream judges them. */
export function ownFields(ask: SpeechRequest, names: readonly string[]): Readonly<Record<string, unknown>> {
  const values = names.map((name) => [name, speechField(ask, name)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** The nearest speed that an upstream has. */
export interface NearestSpeed {
  readonly speed: number;
  /** It is the client's. */
  readonly exact: boolean;
}

export function speedWithin(speed: number, min: number, max: number): NearestSpeed {
  const nearest = Math.min(max, Math.max(min, speed));
  return { speed: nearest, exact: nearest === speed };
}

/** The fields with the speed in one of them, which is an object: an upstream may take it as one of several settings. */
export function withSpeedIn(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  paced: NearestSpeed | null,
): Readonly<Record<string, unknown>> {
  if (paced === null) return fields;
  const settings = fields[name];
  return { ...fields, [name]: { ...(isJsonObject(settings) ? settings : undefined), speed: paced.speed } };
}
