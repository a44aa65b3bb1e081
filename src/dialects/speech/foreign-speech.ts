import { voicesOf } from "../../channels/channel.ts";
import { voiceFor } from "../../channels/voice.ts";
import { audioTypes, type AudioFormat } from "../../media/audio.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, valueOf } from "../../operations/json.ts";
import { field, inner } from "../../operations/request-fields.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { EncodedRequest, ExpectedStream, Target, UpstreamHead, UpstreamRequest } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import type { AudioConversion } from "../readers/audio-track.ts";
import { audioReader } from "../readers/audio-reader.ts";
import { parseUntrusted } from "../untrusted.ts";
import { formatAmong } from "./speech-format.ts";

/** What a dialect with an API of its own needs to know of a speech request, for one target. */
export interface ForeignSpeech<F extends AudioFormat = AudioFormat> {
  /** The upstream's name of the voice. It can be a part of a URL: it is not empty, and no step up. */
  readonly voice: string;
  /** The format to request, one of those that the dialect names. */
  readonly format: F;
  /** Null where the client left it at the usual speed. */
  readonly speed: number | null;
  /** How to speak, in words; null if there is nothing. */
  readonly instructions: string | null;
}

/** `formats`: those that the upstream has. A channel may be configured to have fewer. */
export function foreignSpeech<F extends AudioFormat>(
  ask: SpeechRequest,
  target: Target,
  formats: readonly F[],
): ForeignSpeech<F> | Failure {
  const { channel, model } = target;
  const chosen = voiceFor(voicesOf(channel, model), ask.voice);
  if (isFailure(chosen)) return chosen;
  const voice = chosen.voice ?? ask.voice ?? customVoice(ask);
  if (voice.length > voiceLengthMax || /^\.{0,2}$|\p{Cc}/u.test(voice)) return noVoice();
  const { speechFormats } = channel.capabilities;
  const format = formatAmong(speechFormats === null ? formats : formats.filter((each) => speechFormats.includes(each)), ask.format);
  if (format === undefined)
    return failure("misconfigured", "the channel's speech_formats are none of the upstream's", { scope: "request" });
  const speed = speechField(ask, "speed");
  const instructions = speechField(ask, "instructions");
  return {
    voice,
    format,
    speed: typeof speed === "number" && speed !== 1 ? speed : null,
    instructions: typeof instructions === "string" && instructions !== "" ? instructions : null,
  };
}

const voiceLengthMax = 256;

function noVoice(): Failure {
  return failure("unsupported", "the voice that was asked for cannot be a name of one", {
    message: "Invalid value for 'voice': no voice can have this name.",
    status: 400,
    type: "invalid_request_error",
    code: "invalid_value",
    param: "voice",
  });
}

/** The value of a field of the client; undefined if it is absent or null. */
export function speechField(ask: SpeechRequest, name: string): unknown {
  const member = field(ask.members, name);
  return member === undefined ? undefined : valueOf(ask.body, member);
}

/** A voice as an object has the provider's own id of it. The request was checked for that when it was read. */
function customVoice(ask: SpeechRequest): string {
  const id = inner(ask.body, field(ask.members, "voice"), "id");
  const name = id === undefined ? "" : valueOf(ask.body, id);
  return typeof name === "string" ? name : "";
}

export interface SpeechEncoding {
  readonly request: UpstreamRequest;
  /** The format that was requested. */
  readonly asked: AudioFormat;
  /** The voice that is used. */
  readonly voice: string;
  /** The client's fields that the request contains, beside those that every dialect handles. All others are reported as dropped. */
  readonly carried: readonly string[];
  /** The rate of bare samples, where it is not that of the OpenAI API. */
  readonly sampleRate?: number;
  /** The number of characters that the upstream says it bills; null if it does not say. */
  readonly billed?: (head: UpstreamHead) => number | null;
  /** How the answer is read; absent: its body is audio. */
  readonly answer?: (conversion: AudioConversion) => ExpectedStream;
}

export function encodedSpeech(ask: SpeechRequest, encoding: SpeechEncoding): EncodedRequest {
  const { request, asked, voice, carried, sampleRate, billed } = encoding;
  const conversion: AudioConversion = {
    asked,
    wanted: ask.format,
    events: ask.events,
    characters: ask.characters,
    ...(sampleRate === undefined ? undefined : { sampleRate }),
  };
  const answer: ExpectedStream = encoding.answer?.(conversion) ?? {
    kind: "stream",
    reader: (head, tools) => audioReader({ ...conversion, characters: billed?.(head) ?? ask.characters }, head, tools),
    instead: jsonInsteadOfAudio,
  };
  const named = ask.voice ?? customVoice(ask);
  return { request, answer, clampedTo: null, voice: voice === named ? null : voice, dropped: droppedFields(ask, carried) };
}

/** The number of characters that a header of the answer states. */
export function characterHeader(name: string): (head: UpstreamHead) => number | null {
  return (head) => {
    const stated = head.header(name) ?? "";
    return /^\d{1,7}$/.test(stated) ? Number(stated) : null;
  };
}

/** The URL of a speech request, with further query parameters if the dialect has any, and with more behind the channel's path. */
export function speechUrl({ channel, model }: Target, parameters?: URLSearchParams, below = ""): string {
  const { baseUrl, speechPath, query } = channel.address;
  const added = parameters?.toString() ?? "";
  const separator = query === "" ? "?" : "&";
  return baseUrl + speechPath.replace("{model}", encodeURIComponent(model)) + below + query + (added === "" ? "" : separator + added);
}

export function speechHeaders(asked: AudioFormat, type: string, { forwarded, channel }: Target): Record<string, string> {
  return { accept: `${audioTypes[asked]}, */*;q=0.1`, ...forwarded, ...channel.headers, "content-type": type };
}

/** The names of the fields that a request does not contain, made safe for a log and a header: a client can choose any name. */
function droppedFields(ask: SpeechRequest, carried: readonly string[]): readonly string[] {
  const names = ask.members
    .filter(({ key, kind }) => kind !== "null" && !understood.has(key) && !carried.includes(key) && !isUsual(ask, key))
    .map(({ key }) => key.replace(/[^\w.-]/g, "_").slice(0, nameLengthMax))
    .filter((name) => name !== "");
  return [...new Set(names)].slice(0, droppedMax);
}

/** What is as usual anyway is not missed. */
function isUsual(ask: SpeechRequest, key: string): boolean {
  return (key === "speed" && speechField(ask, key) === 1) || (key === "instructions" && speechField(ask, key) === "");
}

/** The fields that the gateway handles for every dialect. */
const understood: ReadonlySet<string> = new Set(["model", "input", "voice", "response_format", "stream_format"]);
const droppedMax = 32;
const nameLengthMax = 64;

/** JSON in place of audio is an error, or an unusable answer. */
export function jsonInsteadOfAudio(body: Uint8Array): Failure {
  const answer = parseUntrusted(decoder.decode(body), body);
  const error = isJsonObject(answer) ? (answer["error"] ?? answer["detail"] ?? answer["err_msg"]) : null;
  return error === undefined || error === null ? failure("bad_response", "the answer is JSON and not audio") : explainInBand(answer);
}

const decoder = new TextDecoder();
