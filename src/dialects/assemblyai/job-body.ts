import type { JsonObject } from "../../operations/json.ts";
import { spokenLanguage, type TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import { keywordsIn } from "../transcripts/foreign-transcription.ts";

/** The body that creates a job for an uploaded file. */
export function jobBody(audioUrl: string, ask: TranscriptionRequest, model: string): JsonObject {
  const language = languageOf(ask);
  return {
    audio_url: audioUrl,
    speech_models: [model],
    ...(language === null ? { language_detection: true } : { language_code: language }),
    ...(ask.format === "diarized_json" && { speaker_labels: true }),
    ...hintsOf(ask, model),
    ...temperatureOf(ask, model),
  };
}

/** The fields of a client's form that a model takes, besides those that are read for every dialect. */
export function carriedFields(model: string): readonly string[] {
  return isPromptable(model) ? ["keywords", "prompt", "temperature"] : ["keywords"];
}

/** The newer models take a description of the recording and a temperature. */
function isPromptable(model: string): boolean {
  return /^(?:universal-[3-9]|slam-)/.test(model);
}

/**
 * Words and a description exclude one another. The documentation joins them so if there are both
 * (https://www.assemblyai.com/docs/guides/combine-keyterms-and-prompt).
 */
function hintsOf({ fields }: TranscriptionRequest, model: string): JsonObject {
  const keywords = keywordsIn(fields);
  const prompt = isPromptable(model) ? lastField(fields, "prompt") : null;
  if (prompt === null) return keywords.length === 0 ? {} : { keyterms_prompt: keywords };
  return { prompt: keywords.length === 0 ? prompt : `${prompt}\n\nContext: ${keywords.join(", ")}` };
}

/** It was checked when the request was read. */
function temperatureOf({ fields }: TranscriptionRequest, model: string): JsonObject {
  const temperature = isPromptable(model) ? lastField(fields, "temperature") : null;
  return temperature === null ? {} : { temperature: Number(temperature) };
}

function lastField(fields: TranscriptionRequest["fields"], name: string): string | null {
  return fields.findLast((field) => field.name === name && field.value.trim() !== "")?.value ?? null;
}

/**
 * The codes are those of Whisper, such as `jw` for Javanese; an unknown language is sent as the client wrote it. English has codes for three
 * countries; any other language has none.
 */
function languageOf(ask: TranscriptionRequest): string | null {
  const spoken = spokenLanguage(ask.fields);
  return regions[spoken?.toLowerCase().replace("_", "-") ?? ""] ?? ask.language ?? spoken;
}

const regions: Readonly<Record<string, string | undefined>> = { "en-us": "en_us", "en-gb": "en_uk", "en-uk": "en_uk", "en-au": "en_au" };
