import { type Failure } from "../failure.ts";
import { type JsonLimits, jsonLimits, type JsonMember, lastMember, pastSpace, scanJson, valueOf } from "../json.ts";
import { misspelled, bodyMistake, empty, missing, modelMistake, present, wrongType } from "../mistakes.ts";
import type { PassthroughOperation } from "../operation.ts";

/**
 * A request of an operation whose requests and answers are passed on as they are: the bytes that the client sent, and the few facts that
 * the gateway needs.
 */
export interface PassthroughRequest {
  readonly operation: PassthroughOperation;
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly JsonMember[];
  readonly model: string;
  /** An estimate of the tokens of its input, for limits and reservations. */
  readonly promptTokensEstimate: number;
}

/** Reads a request, or returns the mistake that the client has to fix. Unknown fields are passed on. */
export function readPassthroughRequest(operation: PassthroughOperation, body: Uint8Array): PassthroughRequest | Failure {
  const fields = fieldsOf[operation];
  const document = scanJson(body, fields.limits);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const { members } = document;
  const unknown = misspelled(members, fields.read);
  if (unknown !== null) return unknown;
  const model = present(lastMember(members, "model"));
  if (model === undefined) return missing("model");
  if (model.kind !== "string") return wrongType("model", "a string");
  const modelName = valueOf(body, model) as string;
  const wrong = modelMistake(modelName) ?? inputMistake(members, fields.inputs);
  if (wrong !== null) return wrong;
  return { operation, body, document, members, model: modelName, promptTokensEstimate: inputTokens(body, members, fields.inputs) };
}

/** What is read of the requests of an operation. */
interface RequestFields {
  /** What the model works on. */
  readonly inputs: readonly InputField[];
  /** All fields that the gateway reads. */
  readonly read: ReadonlySet<string>;
  readonly limits: JsonLimits;
}

interface InputField {
  readonly name: string;
  readonly kinds: readonly JsonMember["kind"][];
  /** The kinds in words. */
  readonly expected: string;
}

/** Batches of texts that the client has split into tokens already have a number for each of them. */
const manyNumbers: JsonLimits = { ...jsonLimits, tokensMax: 4_000_000 };

const fieldsOf: { readonly [O in PassthroughOperation]: RequestFields } = {
  embedding: {
    inputs: [{ name: "input", kinds: ["string", "array"], expected: "a string or an array" }],
    read: new Set(["model", "input"]),
    limits: manyNumbers,
  },
};

function inputMistake(members: readonly JsonMember[], inputs: readonly InputField[]): Failure | null {
  for (const { name, kinds, expected } of inputs) {
    const member = present(lastMember(members, name));
    if (member === undefined) return missing(name);
    if (!kinds.includes(member.kind)) return wrongType(name, expected);
    if (member.empty) return empty(name);
  }
  return null;
}

/** Every duplicate counts, because some upstreams use the first of two fields with the same name. */
function inputTokens(body: Uint8Array, members: readonly JsonMember[], inputs: readonly InputField[]): number {
  let most = 0;
  for (const { name } of inputs) {
    let tokens = 0;
    for (const member of members) if (member.key === name) tokens = Math.max(tokens, tokensIn(body, member));
    most += tokens;
  }
  return most;
}

/** Texts are estimated from their bytes. Those that the client has split into tokens are counted. */
function tokensIn(body: Uint8Array, { kind, start, end }: JsonMember): number {
  if (kind !== "array" || !holdsNumbers(body, start)) return Math.ceil((end - start) / bytesPerToken);
  let commas = 0;
  for (let at = start; at < end; at++) if (body[at] === comma) commas++;
  return commas + 1;
}

/** Whether an array begins with a number, or with an array of numbers. */
function holdsNumbers(body: Uint8Array, start: number): boolean {
  let at = pastSpace(body, start + 1);
  if (body[at] === bracket) at = pastSpace(body, at + 1);
  const byte = body[at] ?? 0;
  return byte >= digit0 && byte <= digit9;
}

const bytesPerToken = 4;
const comma = 0x2c;
const bracket = 0x5b;
const digit0 = 0x30;
const digit9 = 0x39;
