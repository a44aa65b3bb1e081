import { scanJson } from "../json.ts";
import type { FormField } from "../../media/stored-file.ts";

/** The fields of a transcription that are lists: clients have no one way to write those into a form. */
export const listNames: ReadonlySet<string> = new Set([
  "timestamp_granularities",
  "include",
  "languages",
  "keywords",
  "known_speaker_names",
  "known_speaker_references",
]);

/** The list that a field is of, by its name without brackets: `name`, `name[]` and `name[0]` are one. */
export function listNameOf(fieldName: string): string {
  return fieldName.replace(/\[\d{0,4}\]$/, "");
}

/**
 * Everything in a list, in whichever way it was written: as a field that is repeated, with brackets or without, as fields
 * with numbers, which then give the order, or as JSON. An empty field counts as absent.
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

/** What is not a list of strings stands for itself: a word may begin with a bracket too. */
function valuesIn(text: string): readonly string[] {
  if (!text.trimStart().startsWith("[") || !scanJson(encoder.encode(text), limits).ok) return [text];
  const values = JSON.parse(text) as readonly unknown[];
  return values.every((value) => typeof value === "string") ? values : [text];
}

const encoder = new TextEncoder();

/** Each value becomes a field of its own, which is much longer than a comma: a few hundred are enough for anybody. */
const limits = { depthMax: 1, membersMax: 0, tokensMax: 1000 };
