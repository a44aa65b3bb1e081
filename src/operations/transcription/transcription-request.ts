import { sniffAudio } from "../../media/audio-kind.ts";
import type { Failure } from "../failure.ts";
import { listIn } from "./form-lists.ts";
import { languageCode } from "./languages.ts";
import { missing, mistake, modelMistake } from "../mistakes.ts";
import type { FormField, FormFile } from "../../media/stored-file.ts";
import { transcriptFormats, type TranscriptFormat } from "./transcript.ts";

/** A transcription request as the client sent it, and the few facts the gateway decides on. All other fields travel on. */
export interface TranscriptionRequest {
  readonly operation: "transcription";
  /** `translate`: into English, at an address of its own. */
  readonly task: "transcribe" | "translate";
  readonly model: string;
  readonly stream: boolean;
  readonly format: TranscriptFormat;
  /** A Whisper code such as `en`, from whatever the client wrote; null: to be detected. */
  readonly language: string | null;
  readonly wantsWords: boolean;
  readonly wantsSegments: boolean;
  /** Every field but the file, in the order and the words of the client. */
  readonly fields: readonly FormField[];
  readonly file: FormFile;
  /** How long the file plays, as far as its own bytes tell; null where they do not, or where what they tell cannot be. */
  readonly seconds: number | null;
  /** The file ends before what it says is in it. */
  readonly isCut: boolean;
}

/**
 * Reads the form of a transcription: the facts the gateway decides on, or the mistake that the client can fix. Unknown fields
 * are welcome. Where a field stands twice, the last one counts; an empty field counts as absent.
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
    // The caller reads the length from the file: only a request without a mistake is worth that.
    seconds: null,
    isCut: false,
  };
}

/** The language in the client's own words, or null where it named none. */
export function spokenLanguage(fields: readonly FormField[]): string | null {
  return fields.findLast(({ name, value }) => name === "language" && value !== "")?.value.trim() ?? null;
}

/** The refusal of a language that is none, or none of those that the common speech model was made for. */
export function languageUnknown(): Failure {
  return invalid("language", "must be a code or an English name of a language, such as en, de, zh or english, german, chinese");
}

/** Whether it could be the name of a language somewhere: some upstreams have more of them, and some of their own. */
function isTag(text: string): boolean {
  return text.length <= tagLengthMax && /^[a-z\d]+(?:-[a-z\d]+)*$/i.test(text);
}

const tagLengthMax = 35;

/** Events carry text and speakers only. Where the format asks for more, `stream` is ignored, as the OpenAI API does. */
const streamable: readonly TranscriptFormat[] = ["json", "text", "diarized_json"];

function isFormat(text: string, allowed: readonly TranscriptFormat[]): text is TranscriptFormat {
  return (allowed as readonly string[]).includes(text);
}

function isTemperature(text: string): boolean {
  const value = Number(text);
  return text.trim() !== "" && text.length <= 32 && value >= 0 && value <= 1;
}

type Granularity = "word" | "segment";

/** Null where there is something else in it. */
function granularitiesIn(fields: readonly FormField[]): readonly Granularity[] | null {
  const said = listIn(fields, "timestamp_granularities").map((each) => each.trim());
  return said.every((each) => each === "word" || each === "segment") ? said : null;
}

/** What is wrong with the file, where that is beyond doubt. Upstreams read more formats than anyone can recognise. */
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
