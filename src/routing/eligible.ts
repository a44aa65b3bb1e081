import { voiceFor } from "../channels/voice.ts";
import {
  modelOperationsOf,
  oncePerRoute,
  transcriptionFormatsOf,
  voicesOf,
  type Candidate,
  type Capabilities,
  type Route,
  type Voices,
} from "../channels/channel.ts";
import { isNamedBy } from "../keys/budget-selector.ts";
import type { Splits } from "../keys/key.ts";
import type { CallRequest } from "../operations/call-request.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { type Operation, operationSpecs } from "../operations/operation.ts";
import type { SpeechRequest } from "../operations/speech/speech-request.ts";
import { needsTimes } from "../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../operations/transcription/transcription-request.ts";

/** The candidates that can serve a call, and whether the call is split into parts for them. */
export interface Eligible {
  readonly route: Route;
  readonly split: boolean;
}

/** Limits of a single request, for all channels. */
export interface RequestLimits {
  readonly audioBytesMax: number;
  readonly speechCharactersMax: number;
}

/** The part of a route that is able to serve the request, or the reason why no channel is. Health is judged elsewhere. */
export function eligible(route: Route, request: CallRequest, splits: Splits, limits: RequestLimits): Eligible | Failure {
  const capable = supporting(request.operation, route);
  if (isFailure(capable)) return inOwnApi(route, request) ?? capable;
  return isAudio(request) ? eligibleForAudio(capable.route, request, splits, limits) : capable;
}

/** A client that speaks the upstream's own API knows its models, and can ask for more than chats in it, such as speech. */
function inOwnApi(route: Route, request: CallRequest): Eligible | null {
  if (request.operation !== "chat" || request.surface === null) return null;
  const { surface } = request;
  const own = filtered(
    route,
    ({ deployment: { channel } }) => channel.dialect === surface && channel.capabilities.operations.includes("chat"),
  );
  return own === null ? null : { route: own, split: false };
}

function isAudio(request: CallRequest): request is TranscriptionRequest | SpeechRequest {
  return request.operation === "transcription" || request.operation === "speech";
}

function eligibleForAudio(
  capable: Route,
  request: TranscriptionRequest | SpeechRequest,
  splits: Splits,
  limits: RequestLimits,
): Eligible | Failure {
  const fit = request.operation === "transcription" ? forTranscription(capable, request) : forSpeech(capable, request);
  if (isFailure(fit)) return fit;
  const unsplit = request.operation === "transcription" ? wholeFile(fit, request, limits) : wholeText(fit, request, limits);
  if (!isFailure(unsplit)) return { route: unsplit, split: false };
  const { split } = operationSpecs[request.operation];
  if (split === null) return unsplit;
  const splittable = splits[split.setting] ? fit : withCapability(fit, (capabilities) => capabilities[split.capability]);
  return splittable === null ? unsplit : { route: splittable, split: true };
}

/** Formats with timestamps need a channel that returns them. */
function forTranscription(all: Route, request: TranscriptionRequest): Route | Failure {
  const route = request.task === "translate" ? withCapability(all, ({ translation }) => translation) : all;
  if (route === null) return translationUnsupported;
  if (!needsTimes(request.format)) return route;
  if (request.format === "diarized_json") {
    const knows = ({ deployment: { channel, model } }: Candidate): boolean =>
      transcriptionFormatsOf(channel, model)?.includes("diarized_json") ?? true;
    // If no channel declares the format, all remain: the dialect decides.
    return filtered(route, knows) ?? route;
  }
  return (
    filtered(route, ({ deployment: { channel, model } }) => transcriptionFormatsOf(channel, model)?.some(needsTimes) ?? true) ??
    timestampsUnsupported(request)
  );
}

function forSpeech(route: Route, request: SpeechRequest): Route | Failure {
  if (voicesOn(route).every((voices) => !isFailure(voiceFor(voices, request.voice)))) return route;
  const chosen = ({ deployment: { channel, model } }: Candidate) => voiceFor(voicesOf(channel, model), request.voice);
  return filtered(route, (candidate) => !isFailure(chosen(candidate))) ?? (chosen(route.tiers[0]![0]!) as Failure);
}

/** The candidates that accept the whole file in one request. */
function wholeFile(route: Route, request: TranscriptionRequest, limits: RequestLimits): Route | Failure {
  const bytes = request.file.content.length;
  if (bytes > limits.audioBytesMax) return fileTooLarge(limits.audioBytesMax, bytes);
  const bySize = withCapability(route, ({ audioBytesMax }) => audioBytesMax === null || audioBytesMax >= bytes);
  if (bySize === null) return fileTooLarge(largest(route, "audioBytesMax"), bytes);
  const { seconds } = request;
  if (seconds === null) return bySize;
  const byLength = withCapability(bySize, ({ audioSecondsMax }) => audioSecondsMax === null || audioSecondsMax >= seconds);
  return byLength ?? audioTooLong(largest(bySize, "audioSecondsMax"), seconds);
}

function wholeText(route: Route, request: SpeechRequest, limits: RequestLimits): Route | Failure {
  const { characters } = request;
  if (characters > limits.speechCharactersMax) return inputTooLong(limits.speechCharactersMax, characters);
  const byLength = withCapability(route, ({ inputCharactersMax }) => inputCharactersMax === null || inputCharactersMax >= characters);
  return byLength ?? inputTooLong(largest(route, "inputCharactersMax"), characters);
}

function largest(route: Route, limit: "audioBytesMax" | "audioSecondsMax" | "inputCharactersMax"): number {
  return Math.max(...route.tiers.flat().map(({ deployment }) => deployment.channel.capabilities[limit] ?? 0));
}

/** Needed on every call, and it depends on the route alone. */
const supportingRoutes = oncePerRoute(() => new Map<Operation, Eligible | Failure>());

function supporting(operation: Operation, route: Route): Eligible | Failure {
  return supportingRoutes(route).get(operation) ?? computeSupporting(operation, route);
}

function computeSupporting(operation: Operation, route: Route): Eligible | Failure {
  const capable = filtered(route, (candidate) => supports(candidate, operation));
  const answer = capable === null ? unsupportedOperation(route.model, operation) : { route: capable, split: false };
  supportingRoutes(route).set(operation, answer);
  return answer;
}

function supports({ deployment: { channel, model } }: Candidate, operation: Operation): boolean {
  return (modelOperationsOf(channel, model) ?? channel.capabilities.operations).includes(operation);
}

/** Channels that are alike share their capabilities, so that a large route has few of them to look at. */
function withCapability(route: Route, fits: (capabilities: Capabilities) => boolean): Route | null {
  if (capabilitiesOn(route).every(fits)) return route;
  return filtered(route, ({ deployment }) => fits(deployment.channel.capabilities));
}

const capabilitiesOn = oncePerRoute(({ tiers }: Route): readonly Capabilities[] => [
  ...new Set(tiers.flatMap((tier) => tier.map(({ deployment }) => deployment.channel.capabilities))),
]);

const voicesOn = oncePerRoute(({ tiers }: Route): readonly Voices[] => [
  ...new Set(tiers.flatMap((tier) => tier.map(({ deployment: { channel, model } }) => voicesOf(channel, model)))),
]);

/** Returns the same object if all candidates fit, so that what is cached for the route stays valid. */
function filtered(route: Route, fits: (candidate: Candidate) => boolean): Route | null {
  const tiers = route.tiers.map((tier) => tier.filter(fits)).filter((tier) => tier.length > 0);
  const size = tiers.reduce((sum, tier) => sum + tier.length, 0);
  if (size === route.size) return route;
  return size === 0 ? null : { model: route.model, tiers, size };
}

function unsupportedOperation(model: string, operation: Operation): Failure {
  return refused("operation not supported", 400, "unsupported_operation", "model", {
    message: `The model '${model.slice(0, 200)}' does not support ${operationSpecs[operation].displayName} here. Use a model that does.`,
  });
}

/** The message, status and type are those of the OpenAI API, which sends no code. */
function fileTooLarge(limit: number, bytes: number): Failure {
  return failure("invalid_request", "the file is too large for one request", {
    message: `Maximum content size limit (${limit}) exceeded (${bytes} bytes read)`,
    status: 413,
    type: "server_error",
  });
}

const translationUnsupported = refused("no channel translates", 400, "unsupported_operation", "model", {
  message: "No channel of this model translates. Transcribe it, or use another model.",
});

function audioTooLong(limit: number, seconds: number): Failure {
  return failure("too_large", "the recording is too long for one request", {
    message: `Maximum audio duration (${limit} seconds) exceeded (the file has ${Math.ceil(seconds)} seconds)`,
    status: 413,
    type: "server_error",
  });
}

function timestampsUnsupported({ format }: TranscriptionRequest): Failure {
  return refused("no channel has times", 400, "unsupported_value", "response_format", {
    message: `'${format}' needs timestamps, and no channel of this model gives any. Use 'json' or 'text', or another model.`,
  });
}

function inputTooLong(limit: number, characters: number): Failure {
  return refused("input too long", 400, "string_above_max_length", "input", {
    message: `'input' has ${characters} characters, and at most ${limit} are allowed.`,
  });
}

function refused(detail: string, status: number, code: string, param: string, { message }: { readonly message: string }): Failure {
  return failure("invalid_request", detail, { message, status, type: "invalid_request_error", code, param });
}

/** The part of a route that a key may use if it is bound to channels by their names or tags; null if there is none. */
export function boundTo(route: Route, channels: readonly string[] | null): Route | null {
  if (channels === null) return route;
  return route.size > filteredEachTime ? knownBounds(route, channels) : namedBy(channels, route);
}

function namedBy(channels: readonly string[], route: Route): Route | null {
  return filtered(route, ({ deployment }) => isNamedBy(deployment.channel, channels));
}

/** The parts of a large route that were used last, by the names that keys are bound to; as many as have a bounded size together. */
function knownBounds(route: Route, channels: readonly string[]): Route | null {
  const known = boundRoutes(route);
  const names = channels.join("\n");
  const found = known.get(names);
  if (found !== undefined) return found;
  const bound = namedBy(channels, route);
  if (known.size >= Math.max(boundsMin, Math.min(boundsMax, Math.floor(boundCandidatesMax / route.size)))) known.clear();
  known.set(names, bound);
  return bound;
}

const boundRoutes = oncePerRoute(() => new Map<string, Route | null>());

/** A smaller route is filtered in less time than it takes to find it. */
const filteredEachTime = 8;
const boundsMin = 8;
const boundsMax = 64;
const boundCandidatesMax = 100_000;
