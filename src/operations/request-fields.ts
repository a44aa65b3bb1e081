import type { Failure } from "./failure.ts";
import {
  elementsOf,
  jsonLimits,
  lastMember,
  membersOf,
  scanJson,
  valueOf,
  type JsonLimits,
  type JsonMember,
  type JsonSpan,
} from "./json.ts";
import { bodyMistake, misspelled, missing, mistake, modelMistake, present, wrongType } from "./mistakes.ts";
import type { Scanned } from "./splice.ts";

/** The body of a request that was found to be a JSON object. Its fields are read where they stand; all others are passed on unread. */
export interface RequestDocument extends Scanned {
  readonly model: string;
}

/**
 * Scans a body and reads the model that it names. `names` are the fields that the gateway reads: one of them in another spelling is a
 * mistake. `usualModel` is for an API that has one for requests without.
 */
export function readDocument(
  body: Uint8Array,
  names: ReadonlySet<string>,
  usualModel: string | null = null,
  limits: JsonLimits = jsonLimits,
): RequestDocument | Failure {
  const document = scanJson(body, limits);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const { members } = document;
  const unknown = misspelled(members, names);
  if (unknown !== null) return unknown;
  const model = modelIn(body, members, usualModel);
  return typeof model === "string" ? { body, document, members, model } : model;
}

function modelIn(body: Uint8Array, members: readonly JsonMember[], usual: string | null): string | Failure {
  const member = field(members, "model");
  if (member === undefined) return usual ?? missing("model");
  if (member.kind !== "string") return wrongType("model", "a string");
  const name = valueOf(body, member) as string;
  return modelMistake(name) ?? name;
}

/** The last member with this name, unless it is `null`. */
export function field(members: readonly JsonMember[], key: string): JsonMember | undefined {
  return present(lastMember(members, key));
}

/** A field of a field. */
export function inner(body: Uint8Array, member: JsonSpan | undefined, key: string): JsonMember | undefined {
  return member?.kind === "object" ? field(membersOf(body, member.start, member.end), key) : undefined;
}

/** The elements of a list; none of anything else. */
export function listed(body: Uint8Array, member: JsonSpan | undefined): readonly JsonSpan[] {
  return member?.kind === "array" ? elementsOf(body, member.start, member.end) : nothing;
}

const nothing: readonly JsonSpan[] = [];

/** A list that must not be empty. `unit` is what the API calls its elements. */
export function requiredList(members: readonly JsonMember[], key: string, unit: string): JsonMember | Failure {
  const list = field(members, key);
  if (list === undefined) return missing(key);
  if (list.kind !== "array") return wrongType(key, "an array");
  return list.empty ? mistake(`'${key}' must contain at least one ${unit}.`, "empty_array", key) : list;
}

export function streamMistake(members: readonly JsonMember[]): Failure | null {
  const stream = field(members, "stream");
  return stream === undefined || stream.kind === "true" || stream.kind === "false" ? null : wrongType("stream", "a boolean");
}

export function asksForStream(members: readonly JsonMember[]): boolean {
  return field(members, "stream")?.kind === "true";
}

/** The client asked for the usage chunk of a stream. */
export function asksForUsage(body: Uint8Array, members: readonly JsonMember[]): boolean {
  return inner(body, field(members, "stream_options"), "include_usage")?.kind === "true";
}

/** Limits and budgets count it. Where it is repeated an upstream may read either, and the largest counts. */
export function largestInteger(
  body: Uint8Array,
  members: readonly JsonMember[],
  key: string,
  min: 0 | 1,
): Failure | { readonly value: number | null } {
  let largest: number | null = null;
  for (const member of members) {
    if (member.key !== key || member.kind === "null") continue;
    const value = member.kind === "number" ? (valueOf(body, member) as number) : NaN;
    if (!Number.isInteger(value)) return wrongType(key, "an integer");
    if (value < min) return mistake(`'${key}' must be at least ${min}.`, "integer_below_min_value", key);
    largest = Math.max(largest ?? 0, value);
  }
  return { value: largest };
}

/** The type of a tool; null where it has none. */
export function toolType(body: Uint8Array, tool: JsonSpan): string | null {
  const type = inner(body, tool, "type");
  return type?.kind === "string" ? (valueOf(body, type) as string) : null;
}

export function toolsExcess(param: string, tools: readonly JsonSpan[]): Failure | null {
  return excess(param, tools.length, toolsMax);
}

/** Rejects texts that cost an upstream far more than the client: it searches for each of them at every token. */
export function stopsExcess(body: Uint8Array, stops: JsonMember): Failure | null {
  const { key, start, end } = stops;
  if (end - start > stopBytesMax) return mistake(`'${key}' is longer than ${stopBytesMax / 1024} KiB.`, "string_above_max_length", key);
  // A shorter list cannot have too many elements: each takes at least one byte and a comma or a bracket.
  return end - start <= 2 * stopsMax ? null : excess(key, listed(body, stops).length, stopsMax);
}

function excess(param: string, count: number, max: number): Failure | null {
  return count <= max ? null : mistake(`'${param}' has ${count} elements, and may have ${max}.`, "array_above_max_length", param);
}

/** The OpenAI API allows 4, others some dozens. */
const stopsMax = 256;
const stopBytesMax = 64 * 1024;
/** The OpenAI API allows 128; clients of many services send more. */
const toolsMax = 1024;

/** Text of a prompt has about so many bytes for each token. */
export const bytesPerToken = 4;
