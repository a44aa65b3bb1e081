import { scanJson } from "../json.ts";
import type { FormField } from "../../media/stored-file.ts";

/** Recordings of known speakers, as data URLs: the only field besides the file that is not a short text. */
export const recordingsName = "known_speaker_references";

/** The fields of a transcription that are lists. Clients write lists into forms in several ways. */
export const listNames: ReadonlySet<string> = new Set([
  "timestamp_granularities",
  "include",
  "languages",
  "keywords",
  "known_speaker_names",
  recordingsName,
]);

/** The name of a field's list without brackets: `name`, `name[]` and `name[0]` are the same list. */
export function listNameOf(fieldName: string): string {
  return fieldName.replace(/\[\d{0,4}\]$/, "");
}

/**
 * The values of a list, however it was written: as a repeated field, with brackets or without, as numbered fields in their order, or as
 * JSON. An empty field counts as absent.
 */
export function listIn(fields: readonly FormField[], list: string): readonly string[] {
  return fields
    .filter(({ name }) => listNameOf(name) === list)
    .toSorted((first, second) => indexOf(first) - indexOf(second))
    .flatMap(({ value }) => valuesIn(value))
    .filter((value) => value !== "");
}

function indexOf({ name }: FormField): number {
  return Number(/\[(\d{1,4})\]$/.exec(name)?.[1] ?? 0);
}

/** Text that is not a JSON list of strings is one value, even if it begins with a bracket. */
function valuesIn(text: string): readonly string[] {
  if (!text.trimStart().startsWith("[") || !scanJson(encoder.encode(text), limits).ok) return [text];
  const values = JSON.parse(text) as readonly unknown[];
  return values.every((value) => typeof value === "string") ? values : [text];
}

const encoder = new TextEncoder();

/** Each value becomes a field of its own, which takes much more space than in the list, so their number is limited. */
const limits = { depthMax: 1, membersMax: 0, tokensMax: 1000 };
