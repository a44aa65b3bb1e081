import { audioFormats, type AudioFormat } from "../../media/audio.ts";
import { characterCount } from "./sentences.ts";
import { isFailure, type Failure } from "../failure.ts";
import { empty, missing, mistake, wrongType } from "../mistakes.ts";
import { type JsonMember, lastMember, membersOf, valueOf } from "../json.ts";
import { field as fieldOf, readDocument } from "../request-fields.ts";

/** A speech request: the bytes that the client sent, and the few facts that the gateway needs. */
export interface SpeechRequest {
  readonly operation: "speech";
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly JsonMember[];
  readonly model: string;
  /** The text, and its number of Unicode characters. */
  readonly input: string;
  readonly characters: number;
  /** The name of a voice; null if the client sent an object, which only its provider understands. */
  readonly voice: string | null;
  readonly format: AudioFormat;
  /** The client wants events with base64 audio instead of bytes. */
  readonly events: boolean;
}

export interface SpeechLimits {
  /** The longest text, in Unicode characters. */
  readonly charactersMax: number;
}

/** Reads a speech request, or returns the mistake that the client has to fix. Unknown fields are passed on. */
export function readSpeechRequest(body: Uint8Array, limits: SpeechLimits): SpeechRequest | Failure {
  const read = readDocument(body, decidedOn);
  if (isFailure(read)) return read;
  const { document, members, model } = read;
  const field = (key: string): JsonMember | undefined => fieldOf(members, key);

  const input = filled(body, field("input"), "input");
  if (isFailure(input)) return input;
  const characters = characterCount(input.text);
  if (characters > limits.charactersMax) {
    const message = `'input' has ${characters} characters, and at most ${limits.charactersMax} are allowed.`;
    return mistake(message, "string_above_max_length", "input");
  }

  const voice = voiceIn(body, field("voice"));
  if (isFailure(voice)) return voice;
  const format = oneOf(body, field("response_format"), "response_format", audioFormats);
  if (isFailure(format)) return format;
  const wrongSpeed = speedMistake(body, field("speed"));
  if (wrongSpeed !== null) return wrongSpeed;
  const streamFormat = oneOf(body, field("stream_format"), "stream_format", streamFormats);
  if (isFailure(streamFormat)) return streamFormat;

  return {
    operation: "speech",
    body,
    document,
    members,
    model,
    input: input.text,
    characters,
    voice: voice.name,
    format: (format.value as AudioFormat | null) ?? "mp3",
    events: streamFormat.value === "sse",
  };
}

/** The fields that the gateway reads. */
const decidedOn: ReadonlySet<string> = new Set(["model", "input", "voice", "response_format", "speed", "stream_format"]);
const streamFormats = ["audio", "sse"];
const speedMin = 0.25;
const speedMax = 4;

function filled(body: Uint8Array, member: JsonMember | undefined, param: string): { readonly text: string } | Failure {
  if (member === undefined) return missing(param);
  if (member.kind !== "string") return wrongType(param, "a string");
  const text = valueOf(body, member) as string;
  return text === "" ? empty(param) : { text };
}

/** A name, or an object with the `id` of a custom voice of the provider. */
function voiceIn(body: Uint8Array, member: JsonMember | undefined): { readonly name: string | null } | Failure {
  if (member?.kind !== "object") {
    const name = filled(body, member, "voice");
    if (!isFailure(name)) return { name: name.text };
    return name.code === "invalid_type" ? wrongType("voice", "a string, or an object with an id") : name;
  }
  const id = lastMember(membersOf(body, member.start, member.end), "id");
  if (id === undefined) return missing("voice.id");
  if (id.kind !== "string") return wrongType("voice.id", "a string");
  return valueOf(body, id) === "" ? empty("voice.id") : { name: null };
}

function oneOf(
  body: Uint8Array,
  member: JsonMember | undefined,
  param: string,
  values: readonly string[],
): { readonly value: string | null } | Failure {
  if (member === undefined) return { value: null };
  if (member.kind !== "string") return wrongType(param, "a string");
  const value = valueOf(body, member) as string;
  if (values.includes(value)) return { value };
  const listed = values.map((each) => `'${each}'`);
  return mistake(`Invalid value for '${param}': it must be one of ${listed.join(", ")}.`, "invalid_value", param);
}

function speedMistake(body: Uint8Array, member: JsonMember | undefined): Failure | null {
  if (member === undefined) return null;
  if (member.kind !== "number") return wrongType("speed", "a number");
  const speed = valueOf(body, member) as number;
  if (speed >= speedMin && speed <= speedMax) return null;
  return mistake(`Invalid value for 'speed': it must be from ${speedMin} to ${speedMax}.`, "invalid_value", "speed");
}
