import { isJsonObject, type JsonObject } from "../../operations/json.ts";

export function fields(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** The objects of a list; any other element counts as an empty object. */
export function list(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.map(fields) : [];
}

export function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A time, which some upstreams write as a string; NaN if there is none. */
export function seconds(value: unknown): number {
  if (typeof value === "string" && value.length <= 32 && value.trim() !== "") return Number(value);
  return typeof value === "number" ? value : Number.NaN;
}

/** The label of a numbered speaker: A, B, …, Z, AA, … Null if there is none. */
export function speakerLabel(speaker: unknown): string | null {
  if (typeof speaker === "string") {
    const number = /^speaker_(\d{1,4})$/.exec(speaker)?.[1];
    return number === undefined ? speaker.slice(0, nameLengthMax) || null : speakerLabel(Number(number));
  }
  if (typeof speaker !== "number" || !Number.isInteger(speaker) || speaker < 0 || speaker > numberMax) return null;
  const last = String.fromCharCode(65 + (speaker % 26));
  return speaker < 26 ? last : `${speakerLabel(Math.floor(speaker / 26) - 1)}${last}`;
}

const numberMax = 9999;
const nameLengthMax = 200;
