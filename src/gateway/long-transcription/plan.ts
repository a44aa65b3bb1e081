import { transcriptionFormatsOf, type Candidate, type Route } from "../../channels/channel.ts";
import { listIn } from "../../operations/transcription/form-lists.ts";
import { needsTimes, type TranscriptFormat } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Call } from "../call.ts";
import type { AudioPart } from "../ports.ts";

/** How a recording is cut and its parts are asked for. */
export interface PartPlan {
  readonly route: Route;
  readonly secondsMax: number;
  readonly format: TranscriptFormat;
}

/** Parts that everybody on the route takes; null where nobody takes any of a sensible length. */
export function planParts({ route, snapshot }: Call, ask: TranscriptionRequest): PartPlan | null {
  const { audioBytesMax } = snapshot.service;
  const takes = (candidate: Candidate): number => Math.min(secondsOf(candidate), secondsIn(audioBytesMax));
  const tiers = route.tiers.map((tier) => tier.filter((each) => takes(each) >= partSecondsMin)).filter((tier) => tier.length > 0);
  const candidates = tiers.flat();
  if (candidates.length === 0) return null;
  return {
    route: { model: route.model, tiers, size: candidates.length },
    secondsMax: Math.min(...candidates.map(takes)),
    format: formatOf(ask, candidates),
  };
}

/** What one part is asked for: the same as the client asks for the whole, except for how the answer is written. */
export function partAsk(ask: TranscriptionRequest, part: AudioPart, format: TranscriptFormat): TranscriptionRequest {
  const same = ask.format === format;
  return {
    ...ask,
    stream: false,
    format,
    // Times may be asked for in words that go with the client's format only.
    wantsWords: same && ask.wantsWords,
    wantsSegments: !same || ask.wantsSegments,
    fields: same ? ask.fields : ask.fields.filter(({ name }) => !name.startsWith("timestamp_granularities")),
    file: part.file,
    seconds: part.end - part.start,
    isCut: false,
  };
}

/** The names that the client gave to speakers. */
export function knownSpeakers({ fields }: TranscriptionRequest): readonly string[] {
  return listIn(fields, "known_speaker_names");
}

function secondsOf({ deployment: { channel } }: Candidate): number {
  const { audioBytesMax, audioSecondsMax } = channel.capabilities;
  const bytes = audioBytesMax === null ? Infinity : secondsIn(audioBytesMax);
  return Math.min(bytes, audioSecondsMax ?? Infinity, partSecondsMax);
}

/** Some upstreams count the whole form, in which the file is not alone. */
function secondsIn(bytes: number): number {
  return Math.max(0, bytes * 0.98 - headerBytes) / bytesPerSecond;
}

/** Times where they are needed, and where everybody has them: they tell where a word was said. Else just the text. */
function formatOf(ask: TranscriptionRequest, candidates: readonly Candidate[]): TranscriptFormat {
  if (ask.format === "diarized_json") return ask.format;
  const timed = candidates.every(
    ({ deployment: { channel, model } }) => transcriptionFormatsOf(channel, model)?.includes("verbose_json") ?? false,
  );
  return needsTimes(ask.format) || timed ? "verbose_json" : "json";
}

/** WAV of 16 bit at 16 kHz, one channel: what speech models listen to. */
const bytesPerSecond = 32_000;
const headerBytes = 44;
/** Shorter parts end sooner, and what fails costs less to ask for again. */
const partSecondsMax = 300;
/** In less than this there is too little to understand. */
const partSecondsMin = 5;
