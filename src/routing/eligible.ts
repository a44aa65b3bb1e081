import { voiceFor } from "../channels/voice.ts";
import { transcriptionFormatsOf, voicesOf, type Candidate, type Channel, type Route } from "../channels/channel.ts";
import { matchesPattern } from "../keys/allow.ts";
import type { Splits } from "../keys/key.ts";
import type { CallRequest } from "../operations/call-request.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { type Operation, operationSpecs } from "../operations/operation.ts";
import type { SpeechRequest } from "../operations/speech/speech-request.ts";
import { needsTimes } from "../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../operations/transcription/transcription-request.ts";

/** With whom a call may be served, and whether it is cut into parts for that. */
export interface Eligible {
  readonly route: Route;
  readonly split: boolean;
}

/** What one request may hold, whatever a channel would take. */
export interface RequestLimits {
  readonly audioBytesMax: number;
  readonly speechCharactersMax: number;
}

/** The part of a route that can do what is asked at all, or what nobody on it can do. Trouble that passes is not its business. */
export function eligible(route: Route, ask: CallRequest, splits: Splits, limits: RequestLimits): Eligible | Failure {
  const able = ableTo(ask.operation, route);
  return isFailure(able) || ask.operation === "chat" ? able : eligibleForAudio(able.route, ask, splits, limits);
}

function eligibleForAudio(
  able: Route,
  ask: TranscriptionRequest | SpeechRequest,
  splits: Splits,
  limits: RequestLimits,
): Eligible | Failure {
  const fit = ask.operation === "transcription" ? forTranscription(able, ask) : forSpeech(able, ask);
  if (isFailure(fit)) return fit;
  const whole = ask.operation === "transcription" ? wholeFile(fit, ask, limits) : wholeText(fit, ask, limits);
  if (!isFailure(whole)) return { route: whole, split: false };
  const { split } = operationSpecs[ask.operation];
  if (split === null) return whole;
  const parted = splits[split.setting] ? fit : narrowed(fit, (capabilities) => capabilities[split.capability]);
  return parted === null ? whole : { route: parted, split: true };
}

/** Prefers those who have times where times are needed. */
function forTranscription(all: Route, ask: TranscriptionRequest): Route | Failure {
  const route = ask.task === "translate" ? narrowed(all, ({ translation }) => translation) : all;
  if (route === null) return noTranslation;
  if (!needsTimes(ask.format)) return route;
  if (ask.format === "diarized_json") {
    const knows = ({ deployment: { channel, model } }: Candidate): boolean =>
      transcriptionFormatsOf(channel, model)?.includes("diarized_json") ?? true;
    // Where nobody declares it, whoever has times may have speakers too: the dialect knows.
    return kept(route, knows) ?? route;
  }
  return (
    kept(route, ({ deployment: { channel, model } }) => transcriptionFormatsOf(channel, model)?.some(needsTimes) ?? true) ?? noTimes(ask)
  );
}

function forSpeech(route: Route, ask: SpeechRequest): Route | Failure {
  const chosen = ({ deployment: { channel, model } }: Candidate) => voiceFor(voicesOf(channel, model), ask.voice);
  return kept(route, (candidate) => !isFailure(chosen(candidate))) ?? (chosen(route.tiers[0]![0]!) as Failure);
}

/** Those who take all of the file in one request. */
function wholeFile(route: Route, ask: TranscriptionRequest, limits: RequestLimits): Route | Failure {
  const bytes = ask.file.content.length;
  if (bytes > limits.audioBytesMax) return tooLarge(limits.audioBytesMax, bytes);
  const roomy = narrowed(route, ({ audioBytesMax }) => audioBytesMax === null || audioBytesMax >= bytes);
  if (roomy === null) return tooLarge(largest(route, "audioBytesMax"), bytes);
  const { seconds } = ask;
  if (seconds === null) return roomy;
  const patient = narrowed(roomy, ({ audioSecondsMax }) => audioSecondsMax === null || audioSecondsMax >= seconds);
  return patient ?? playsTooLong(largest(roomy, "audioSecondsMax"), seconds);
}

function wholeText(route: Route, ask: SpeechRequest, limits: RequestLimits): Route | Failure {
  const { characters } = ask;
  if (characters > limits.speechCharactersMax) return tooLong(limits.speechCharactersMax, characters);
  const patient = narrowed(route, ({ inputCharactersMax }) => inputCharactersMax === null || inputCharactersMax >= characters);
  return patient ?? tooLong(largest(route, "inputCharactersMax"), characters);
}

function largest(route: Route, limit: "audioBytesMax" | "audioSecondsMax" | "inputCharactersMax"): number {
  return Math.max(...route.tiers.flat().map(({ deployment }) => deployment.channel.capabilities[limit] ?? 0));
}

/** Asked on every call, and known as soon as the route is: remembered with it. */
const known = new WeakMap<Route, Map<Operation, Eligible | Failure>>();

function ableTo(operation: Operation, route: Route): Eligible | Failure {
  return known.get(route)?.get(operation) ?? learned(operation, route);
}

function learned(operation: Operation, route: Route): Eligible | Failure {
  const able = kept(route, (candidate) => does(candidate, operation));
  const answer = able === null ? notDone(route.model, operation) : { route: able, split: false };
  const answers = known.get(route) ?? new Map<Operation, Eligible | Failure>();
  known.set(route, answers.set(operation, answer));
  return answer;
}

function does({ deployment: { channel, model } }: Candidate, operation: Operation): boolean {
  const { operations, modelOperations } = channel.capabilities;
  return (modelOperations.get(model) ?? operations).includes(operation);
}

function narrowed(route: Route, fits: (capabilities: Candidate["deployment"]["channel"]["capabilities"]) => boolean): Route | null {
  return kept(route, ({ deployment }) => fits(deployment.channel.capabilities));
}

/** The same route where all of it stays, so that whatever is remembered of it stays too. */
function kept(route: Route, fits: (candidate: Candidate) => boolean): Route | null {
  const tiers = route.tiers.map((tier) => tier.filter(fits)).filter((tier) => tier.length > 0);
  const size = tiers.reduce((sum, tier) => sum + tier.length, 0);
  if (size === route.size) return route;
  return size === 0 ? null : { model: route.model, tiers, size };
}

function notDone(model: string, operation: Operation): Failure {
  return refused("operation not supported", 400, "unsupported_operation", "model", {
    message: `The model '${model.slice(0, 200)}' does not do ${operationSpecs[operation].displayName} here. Ask for a model that does.`,
  });
}

/** As the OpenAI API says it, without a code. */
function tooLarge(limit: number, bytes: number): Failure {
  return failure("invalid_request", "the file is too large for one request", {
    message: `Maximum content size limit (${limit}) exceeded (${bytes} bytes read)`,
    status: 413,
    type: "server_error",
  });
}

const noTranslation = refused("no channel translates", 400, "unsupported_operation", "model", {
  message: "No channel of this model translates. Transcribe it, or use another model.",
});

function playsTooLong(limit: number, seconds: number): Failure {
  return failure("too_large", "the recording is too long for one request", {
    message: `Maximum audio duration (${limit} seconds) exceeded (the file has ${Math.ceil(seconds)} seconds)`,
    status: 413,
    type: "server_error",
  });
}

function noTimes({ format }: TranscriptionRequest): Failure {
  return refused("no channel has times", 400, "unsupported_value", "response_format", {
    message: `'${format}' needs timestamps, and no channel of this model gives any. Use 'json' or 'text', or another model.`,
  });
}

function tooLong(limit: number, characters: number): Failure {
  return refused("input too long", 400, "string_above_max_length", "input", {
    message: `'input' has ${characters} characters, and at most ${limit} are allowed.`,
  });
}

function refused(detail: string, status: number, code: string, param: string, { message }: { readonly message: string }): Failure {
  return failure("invalid_request", detail, { message, status, type: "invalid_request_error", code, param });
}

/** The part of a route that a key may use if it is bound to channels by their names or tags; null if there is none. */
export function boundTo(route: Route, channels: readonly string[] | null): Route | null {
  return channels === null ? route : kept(route, ({ deployment }) => isNamedBy(deployment.channel, channels));
}

function isNamedBy({ name, tags }: Channel, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name) || tags.some((tag) => matchesPattern(pattern, tag)));
}
