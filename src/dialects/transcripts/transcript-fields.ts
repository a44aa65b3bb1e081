/** An object that an upstream sent, of which nothing is known. */
export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function fields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

/** The objects of a list; whatever else stands in it counts as an empty one. */
export function list(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fields) : [];
}

export function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A time, which some upstreams write as a string; not a number where it is none. */
export function seconds(value: unknown): number {
  if (typeof value === "string" && value.length <= 32 && value.trim() !== "") return Number(value);
  return typeof value === "number" ? value : Number.NaN;
}

/** What clients call the speakers that an upstream numbers: A, B, …, Z, AA, … Null where it told none apart. */
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
