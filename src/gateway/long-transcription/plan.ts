import { transcriptionFormatsOf, type Candidate, type Route } from "../../channels/channel.ts";
import { listIn } from "../../operations/transcription/form-lists.ts";
import { needsTimes, type TranscriptFormat } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Call } from "../call.ts";
import type { AudioPart } from "../ports.ts";

/** How a recording is split, and how its parts are requested. */
export interface PartPlan {
  readonly route: Route;
  readonly secondsMax: number;
  readonly format: TranscriptFormat;
}

/** Parts that all candidates accept; null if no candidate accepts parts of a useful length. */
export function planParts({ route, snapshot }: Call, ask: TranscriptionRequest): PartPlan | null {
  const { audioBytesMax } = snapshot.service;
  const secondsFor = (candidate: Candidate): number => Math.min(secondsOf(candidate), secondsIn(audioBytesMax));
  const tiers = route.tiers
    .map((tier) => tier.filter((candidate) => secondsFor(candidate) >= partSecondsMin))
    .filter((tier) => tier.length > 0);
  const candidates = tiers.flat();
  if (candidates.length === 0) return null;
  return {
    route: { model: route.model, tiers, size: candidates.length },
    secondsMax: Math.min(...candidates.map(secondsFor)),
    format: formatOf(ask, candidates),
  };
}

/** The request for one part: that of the client, except for the format of the answer. */
export function partAsk(ask: TranscriptionRequest, part: AudioPart, format: TranscriptFormat): TranscriptionRequest {
  const same = ask.format === format;
  return {
    ...ask,
    stream: false,
    format,
    // The client's request for timestamps may only be valid with its own format.
    wantsWords: same && ask.wantsWords,
    wantsSegments: !same || ask.wantsSegments,
    fields: same ? ask.fields : ask.fields.filter(({ name }) => !name.startsWith("timestamp_granularities")),
    file: part.file,
    seconds: part.end - part.start,
    isCut: false,
  };
}

/** The speaker names that the client sent. */
export function knownSpeakers({ fields }: TranscriptionRequest): readonly string[] {
  return listIn(fields, "known_speaker_names");
}

function secondsOf({ deployment: { channel } }: Candidate): number {
  const { audioBytesMax, audioSecondsMax } = channel.capabilities;
  const bytes = audioBytesMax === null ? Infinity : secondsIn(audioBytesMax);
  return Math.min(bytes, audioSecondsMax ?? Infinity, partSecondsMax);
}

/** A little less than the limit, because some upstreams count the whole form. */
function secondsIn(bytes: number): number {
  return Math.max(0, bytes * 0.98 - headerBytes) / bytesPerSecond;
}

/** With timestamps if the client needs them or all candidates support them, because they show where words belong. Otherwise text only. */
function formatOf(ask: TranscriptionRequest, candidates: readonly Candidate[]): TranscriptFormat {
  if (ask.format === "diarized_json") return ask.format;
  const timed = candidates.every(
    ({ deployment: { channel, model } }) => transcriptionFormatsOf(channel, model)?.includes("verbose_json") ?? false,
  );
  return needsTimes(ask.format) || timed ? "verbose_json" : "json";
}

/** 16-bit mono WAV at 16 kHz, the input format of speech models. */
const bytesPerSecond = 32_000;
const headerBytes = 44;
/** Shorter parts are transcribed sooner, and retrying one costs less. */
const partSecondsMax = 300;
/** A shorter part contains too little to understand. */
const partSecondsMin = 5;
