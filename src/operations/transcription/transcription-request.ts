import { sniffAudio } from "../../media/audio-kind.ts";
import type { Failure } from "../failure.ts";
import { listIn } from "./form-lists.ts";
import { languageCode } from "./languages.ts";
import { missing, mistake, modelMistake } from "../mistakes.ts";
import type { FormField, FormFile } from "../../media/stored-file.ts";
import { transcriptFormats, type TranscriptFormat } from "./transcript.ts";

/** A transcription request, with the few facts that the gateway needs. All other fields are passed on. */
export interface TranscriptionRequest {
  readonly operation: "transcription";
  /** `translate`: into English, which is an endpoint of its own. */
  readonly task: "transcribe" | "translate";
  readonly model: string;
  readonly stream: boolean;
  readonly format: TranscriptFormat;
  /** A Whisper code such as `en`; null if the language is to be detected. */
  readonly language: string | null;
  readonly wantsWords: boolean;
  readonly wantsSegments: boolean;
  /** All fields except the file, as the client sent them. */
  readonly fields: readonly FormField[];
  readonly file: FormFile;
  /** The length of the audio according to the file; null if the file does not tell, or not plausibly. */
  readonly seconds: number | null;
  /** The file is shorter than it declares. */
  readonly isCut: boolean;
}

/**
 * Reads the form of a transcription, or returns the mistake that the client has to fix. Unknown fields are passed on. Of a repeated field
 * the last one counts; an empty field counts as absent.
 */
export function readTranscriptionRequest(
  fields: readonly FormField[],
  file: FormFile,
  task: TranscriptionRequest["task"],
): TranscriptionRequest | Failure {
  const field = (name: string): string | null => fields.findLast((each) => each.name === name && each.value !== "")?.value ?? null;

  const model = field("model");
  if (model === null) return missing("model");
  const unnamable = modelMistake(model);
  if (unnamable !== null) return unnamable;

  const format = field("response_format") ?? "json";
  const allowed = task === "translate" ? transcriptFormats.filter((each) => each !== "diarized_json") : transcriptFormats;
  if (!isFormat(format, allowed)) return invalid("response_format", `must be one of ${allowed.join(", ")}`);

  const stream = field("stream")?.trim().toLowerCase() ?? "false";
  if (stream !== "true" && stream !== "false") return invalid("stream", "must be true or false");

  const temperature = field("temperature");
  if (temperature !== null && !isTemperature(temperature)) return invalid("temperature", "must be a number from 0 to 1");

  const granularities = granularitiesIn(fields);
  if (granularities === null) return invalid("timestamp_granularities", "must be word, segment or both");

  const spoken = spokenLanguage(fields);
  const language = spoken === null ? null : languageCode(spoken);
  if (spoken !== null && language === null && !isTag(spoken)) return languageUnknown();

  const wrongFile = fileFault(file);
  if (wrongFile !== null) return mistake(wrongFile, "invalid_value", "file");

  return {
    operation: "transcription",
    task,
    model,
    stream: stream === "true" && task === "transcribe" && streamable.includes(format),
    format,
    language,
    wantsWords: granularities.includes("word"),
    wantsSegments: granularities.length === 0 || granularities.includes("segment"),
    fields,
    file,
    // The caller reads the length from the file, after the request is known to be valid.
    seconds: null,
    isCut: false,
  };
}

/** The language as the client wrote it; null if there is none. */
export function spokenLanguage(fields: readonly FormField[]): string | null {
  return fields.findLast(({ name, value }) => name === "language" && value !== "")?.value.trim() ?? null;
}

/** The mistake of naming a language that Whisper does not have. */
export function languageUnknown(): Failure {
  return invalid("language", "must be a code or an English name of a language, such as en, de, zh or english, german, chinese");
}

/** Whether it may be a language tag of an upstream: some support more languages than Whisper. */
function isTag(text: string): boolean {
  return text.length <= tagLengthMax && /^[a-z\d]+(?:-[a-z\d]+)*$/i.test(text);
}

const tagLengthMax = 35;

/** Events contain text and speakers only. For other formats `stream` is ignored, as in the OpenAI API. */
const streamable: readonly TranscriptFormat[] = ["json", "text", "diarized_json"];

function isFormat(text: string, allowed: readonly TranscriptFormat[]): text is TranscriptFormat {
  return (allowed as readonly string[]).includes(text);
}

function isTemperature(text: string): boolean {
  const value = Number(text);
  return text.trim() !== "" && text.length <= 32 && value >= 0 && value <= 1;
}

type Granularity = "word" | "segment";

/** Null if there is any other value. */
function granularitiesIn(fields: readonly FormField[]): readonly Granularity[] | null {
  const granularities = listIn(fields, "timestamp_granularities").map((each) => each.trim());
  return granularities.every((each) => each === "word" || each === "segment") ? granularities : null;
}

/** What is certainly wrong with the file. Upstreams support more formats than the gateway recognises. */
function fileFault({ name, type, content }: FormFile): string | null {
  if (content.length === 0) return "The file is empty.";
  if (sniffAudio(content.head) !== null || (type !== null && /^(?:audio|video)\//i.test(type))) return null;
  if (audioExtensions.has(extensionOf(name))) return null;
  return "The file is not recognised as audio. Supported formats: flac, mp3, mp4, mpeg, mpga, m4a, ogg, opus, wav, webm.";
}

function extensionOf(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1).toLowerCase();
}

const audioExtensions: ReadonlySet<string> = new Set(
  "flac mp3 mp4 mpeg mpga m4a ogg oga opus wav webm aac aif aiff amr wma mka mkv mov avi 3gp caf au weba".split(" "),
);

function invalid(param: string, rule: string): Failure {
  return mistake(`Invalid value for '${param}': it ${rule}.`, "invalid_value", param);
}
