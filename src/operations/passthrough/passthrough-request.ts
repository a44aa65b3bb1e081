import { isTokenBound } from "../chat/chat-request.ts";
import { isFailure, type Failure } from "../failure.ts";
import { elementsOf, type JsonLimits, jsonLimits, type JsonMember, lastMember, pastSpace, valueOf } from "../json.ts";
import { empty, missing, mistake, wrongType } from "../mistakes.ts";
import { promptTokens } from "../prompt-tokens.ts";
import { asksForStream, asksForUsage, field, readDocument, streamMistake } from "../request-fields.ts";
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
  readonly stream: boolean;
  /** The client asked for the usage chunk of a stream. */
  readonly wantsUsage: boolean;
  /** How many answers it asks for: for each prompt of a completion, or images. */
  readonly choices: number;
  /** The most output tokens for each of them; null if the client sets no limit. */
  readonly maxTokens: number | null;
  /** An estimate of the tokens of its input, for limits and reservations. */
  readonly promptTokensEstimate: number;
  /** The part of it that has to fit into a model's context; 0 if that is not known. */
  readonly contextTokens: number;
  /** Where the body is a form, of images to be changed; absent: it is JSON. */
  readonly form?: PassthroughForm;
}

export type ImageTask = "edits" | "variations";

export interface PassthroughForm {
  readonly task: ImageTask;
  /** The content type, with the boundary. */
  readonly type: string;
  /** Where the name of the model goes, which the form leaves out. */
  readonly modelAt: number;
  /** What the client wrote, without its images. */
  readonly text: string;
}

/** Reads a request, or returns the mistake that the client has to fix. Unknown fields are passed on. */
export function readPassthroughRequest(operation: PassthroughOperation, body: Uint8Array): PassthroughRequest | Failure {
  const fields = fieldsOf[operation];
  const read = readDocument(body, fields.read, fields.usualModel, fields.limits);
  if (isFailure(read)) return read;
  const { document, members, model } = read;
  const wrong = inputMistake(members, fields.inputs) ?? (fields.streams ? streamMistake(members) : null);
  if (wrong !== null) return wrong;
  const counted = countedIn(body, members, fields.counted);
  if (isFailure(counted)) return counted;
  const prompts = operation === "completion" ? promptCount(body, lastMember(members, "prompt")) : 1;
  const promptTokensEstimate = inputTokens(body, members, fields.inputs);
  return {
    operation,
    body,
    document,
    members,
    model,
    stream: fields.streams && asksForStream(members),
    wantsUsage: fields.streams && asksForUsage(body, members),
    choices: counted.choices * prompts,
    maxTokens: counted.maxTokens,
    promptTokensEstimate,
    contextTokens: operation === "completion" ? Math.ceil(promptTokensEstimate / prompts) : 0,
  };
}

/** What is read of the requests of an operation. */
interface RequestFields {
  /** What the model works on. */
  readonly inputs: readonly InputField[];
  /** The fields that say how much is asked for. */
  readonly counted: (key: string) => boolean;
  readonly streams: boolean;
  /** The model that the API uses if the client names none; null if the client has to. */
  readonly usualModel: string | null;
  /** All fields that the gateway reads. */
  readonly read: ReadonlySet<string>;
  readonly limits: JsonLimits;
}

interface InputField {
  readonly name: string;
  readonly kinds: readonly JsonMember["kind"][];
  /** The kinds in words. */
  readonly expected: string;
  readonly optional?: true;
}

const texts = { kinds: ["string", "array"], expected: "a string or an array" } as const;
/** Batches of texts that the client has split into tokens already have a number for each of them. */
const manyNumbers: JsonLimits = { ...jsonLimits, tokensMax: 4_000_000 };
const uncounted = { counted: () => false, streams: false, usualModel: null } as const;

const fieldsOf: { readonly [O in PassthroughOperation]: RequestFields } = {
  embedding: { ...uncounted, inputs: [{ name: "input", ...texts }], read: new Set(["model", "input"]), limits: manyNumbers },
  completion: {
    // Some servers take embeddings instead of a prompt.
    inputs: [
      { name: "prompt", ...texts, optional: true },
      { name: "suffix", kinds: ["string"], expected: "a string", optional: true },
    ],
    counted: (key) => key === "n" || key === "best_of" || isTokenBound(key),
    streams: true,
    usualModel: null,
    read: new Set([
      "model",
      "prompt",
      "suffix",
      "stream",
      "stream_options",
      "n",
      "best_of",
      "max_tokens",
      "max_completion_tokens",
      "n_predict",
    ]),
    limits: manyNumbers,
  },
  moderation: {
    ...uncounted,
    inputs: [{ name: "input", ...texts }],
    usualModel: "omni-moderation-latest",
    read: new Set(["model", "input"]),
    limits: jsonLimits,
  },
  image: {
    inputs: [{ name: "prompt", kinds: ["string"], expected: "a string" }],
    counted: (key) => key === "n",
    streams: true,
    usualModel: null,
    read: new Set(["model", "prompt", "n", "stream"]),
    limits: jsonLimits,
  },
  rerank: {
    ...uncounted,
    inputs: [
      { name: "query", kinds: ["string", "object"], expected: "a string" },
      { name: "documents", kinds: ["array"], expected: "an array" },
    ],
    read: new Set(["model", "query", "documents"]),
    limits: jsonLimits,
  },
};

function inputMistake(members: readonly JsonMember[], inputs: readonly InputField[]): Failure | null {
  for (const { name, kinds, expected, optional } of inputs) {
    const member = field(members, name);
    if (member === undefined && optional === true) continue;
    if (member === undefined) return missing(name);
    if (!kinds.includes(member.kind)) return wrongType(name, expected);
    if (member.empty) return empty(name);
  }
  return null;
}

/**
 * Reads the fields that limits and budgets are based on. Anything but a number is refused, and the largest value counts, because upstreams
 * differ in what they accept and in which of two fields they use.
 */
function countedIn(
  body: Uint8Array,
  members: readonly JsonMember[],
  isCounted: (key: string) => boolean,
): { readonly choices: number; readonly maxTokens: number | null } | Failure {
  let choices = 1;
  let maxTokens: number | null = null;
  for (const member of members) {
    const { key, kind } = member;
    if (!isCounted(key) || kind === "null") continue;
    if (kind !== "number") return wrongType(key, "a number");
    const value = valueOf(body, member) as number;
    if (isTokenBound(key)) {
      maxTokens = Math.max(maxTokens ?? 0, value);
    } else {
      if (value > choicesMax) return mistake(`'${key}' must be at most ${choicesMax}.`, "integer_above_max_value", key);
      choices = Math.max(choices, Math.ceil(value));
    }
  }
  return { choices, maxTokens };
}

/** Every choice multiplies the cost of a call. */
const choicesMax = 128;

/** A list of texts, or of lists of tokens, has as many prompts; a list of tokens is one. */
function promptCount(body: Uint8Array, prompt: JsonMember | undefined): number {
  if (prompt?.kind !== "array" || isDigit(body[pastSpace(body, prompt.start + 1)])) return 1;
  return elementsOf(body, prompt.start, prompt.end).length;
}

/** Every duplicate counts, because some upstreams use the first of two fields with the same name. */
function inputTokens(body: Uint8Array, members: readonly JsonMember[], inputs: readonly InputField[]): number {
  let sum = 0;
  for (const { name } of inputs) {
    let most = 0;
    for (const member of members) if (member.key === name) most = Math.max(most, tokensIn(body, member));
    sum += most;
  }
  return sum;
}

/** Texts are estimated from their bytes. Those that the client has split into tokens are counted. */
function tokensIn(body: Uint8Array, member: JsonMember): number {
  const { kind, start, end } = member;
  if (kind === "null") return 0;
  if (kind !== "array" || !holdsNumbers(body, start)) return promptTokens(body, [member]);
  let commas = 0;
  for (let at = start; at < end; at++) if (body[at] === comma) commas++;
  return commas + 1;
}

/** Whether an array begins with a number, or with an array of numbers. */
function holdsNumbers(body: Uint8Array, start: number): boolean {
  let at = pastSpace(body, start + 1);
  if (body[at] === bracket) at = pastSpace(body, at + 1);
  return isDigit(body[at]);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

const comma = 0x2c;
const bracket = 0x5b;
