import { sniffAudio, type AudioKind } from "../../media/audio-kind.ts";
import type { FormFile } from "../../media/stored-file.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import { languageName } from "../../operations/transcription/languages.ts";
import { needsTimes, type TranscriptUsage } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explain } from "../errors/explain.ts";
import { typeOf } from "../transcripts/file-body.ts";
import { droppedFrom, keywordsIn, standardLanguage } from "../transcripts/foreign-transcription.ts";
import { jsonFileBody } from "../transcripts/json-file-body.ts";
import { formatUnsupported, renderedTranscript } from "../transcripts/rendered-transcript.ts";
import { finishReasonIn, readGeminiAnswer } from "./answer.ts";
import { generateRequest } from "./generate-request.ts";
import { modelFacts } from "./model-facts.ts";

/**
 * Transcription by a model that is asked for it in words: https://ai.google.dev/gemini-api/docs/audio. The times that such a model writes
 * are guesses, so formats that need times are left to other channels.
 */
export const geminiTranscription: Codec<TranscriptionRequest> = { encode, explain };

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  if (needsTimes(ask.format)) return formatUnsupported(ask.format);
  const mimeType = audioTypeOf(ask.file);
  if (mimeType === null) return unknownAudio;
  const document = {
    contents: [{ role: "user", parts: [{ inlineData: { mimeType, data: "" } }, { text: transcriptPrompt(ask) }] }],
    generationConfig: generationConfig(ask, target.model),
  };
  return {
    request: generateRequest(jsonFileBody(document, "data", ask.file.content), false, target),
    answer: { kind: "whole", read: (body) => readTranscript(body, ask) },
    clampedTo: null,
    voice: null,
    dropped: droppedFrom(ask, ["prompt", "keywords", "temperature"]),
  };
}

/** What to write. A client's own words are only a help: they cannot make the answer anything but a transcript. */
export function transcriptPrompt(ask: TranscriptionRequest): string {
  const language = standardLanguage(ask);
  const keywords = keywordsIn(ask.fields);
  const context = fieldOf(ask, "prompt");
  const named = ask.language === null ? language : languageName(ask.language);
  return [
    ask.task === "translate"
      ? "Write down in English what is said in this recording, completely and in order."
      : "Write down what is said in this recording, word for word, in the language that is spoken.",
    "Answer with that text alone: no introduction, no comments, no times, no names of speakers, no descriptions of sounds, no Markdown.",
    "If nothing is said, answer with an empty text.",
    ...(named === null ? [] : [`The language of the recording is ${named}.`]),
    ...(keywords.length === 0 ? [] : [`These words may occur in it: ${keywords.join(", ")}.`]),
    ...(context === null ? [] : [`For spelling and style, this is what came before it or what it is about:\n${context}`]),
  ].join("\n");
}

/** Writing down takes no thought, which would be billed. */
function generationConfig(ask: TranscriptionRequest, model: string): JsonObject {
  const { thinking } = modelFacts(model);
  const temperature = fieldOf(ask, "temperature");
  return {
    ...(temperature === null ? undefined : { temperature: Number(temperature) }),
    ...(thinking.kind === "level" ? { thinkingConfig: { thinkingLevel: thinking.levels[0] } } : undefined),
    ...(thinking.kind === "budget" ? { thinkingConfig: { thinkingBudget: thinking.least } } : undefined),
  };
}

function fieldOf({ fields }: TranscriptionRequest, name: string): string | null {
  return fields.findLast((field) => field.name === name && field.value.trim() !== "")?.value ?? null;
}

/** The type that the first bytes show, in the API's own names, or that of the client. Null if it is neither audio nor video. */
function audioTypeOf(file: FormFile): string | null {
  const kind = sniffAudio(file.content.head);
  const own = kind === null ? undefined : types[kind];
  const [given = ""] = typeOf(file).split(";", 1);
  return own ?? (/^(?:audio|video)\//i.test(given) ? given.trim().toLowerCase() : null);
}

const types: { readonly [K in AudioKind]?: string } = {
  wav: "audio/wav",
  mp3: "audio/mp3",
  aiff: "audio/aiff",
  aac: "audio/aac",
  ogg: "audio/ogg",
  flac: "audio/flac",
  m4a: "audio/m4a",
  mp4: "audio/mp4",
  webm: "audio/webm",
};

const unknownAudio = failure("unsupported", "the format of the file is not known", {
  message: "The format of the file is not recognised. Send it as wav, mp3, flac, ogg, aac, m4a or webm.",
  status: 400,
  type: "invalid_request_error",
  code: "invalid_value",
  param: "file",
});

/** Half a transcript would be taken for the whole: only one reason says that all of it is there. */
function readTranscript(body: Uint8Array, ask: TranscriptionRequest): WholeAnswer | Failure {
  const whole = readGeminiAnswer(body, []);
  if (isFailure(whole)) return whole;
  if (whole.finish === "length") return { ...cutOff, served: true };
  if (whole.finish === "content_filter") return { ...refused, served: true };
  const reason = finishReasonIn(body);
  if (reason !== "STOP") return { ...failure("model_failed", `the transcript ended with ${reason || "no reason"}`), served: true };
  const text = (whole.answer?.parts ?? []).map((part) => (part.kind === "text" ? part.text : "")).join("");
  const transcript = {
    text: text.trim(),
    language: ask.language,
    duration: null,
    segments: null,
    words: null,
    usage: whole.usage === null ? null : usageOf(whole.usage),
  };
  return renderedTranscript(transcript, ask);
}

const cutOff = failure("model_failed", "the transcript was cut off at the model's limit", {
  message: "The transcript is longer than the model can write. Send the recording in parts.",
});
const refused = failure("model_failed", "the transcript was refused by the upstream's filters", {
  message: "The upstream's content policy does not let the model write this transcript.",
});

function usageOf({ promptTokens, completionTokens, audioInputTokens }: MeteredUsage): TranscriptUsage | null {
  if (promptTokens === null || completionTokens === null) return null;
  const details =
    audioInputTokens === undefined
      ? undefined
      : { input_token_details: { text_tokens: promptTokens - audioInputTokens, audio_tokens: audioInputTokens } };
  return {
    type: "tokens",
    input_tokens: promptTokens,
    ...details,
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}
