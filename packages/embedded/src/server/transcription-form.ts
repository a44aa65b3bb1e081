import { languageCode } from "../transcription/languages.ts";
import { checkNumber, firstError, unsupported } from "./fields.ts";
import { requestError, type RequestError } from "./request-error.ts";

/** A transcription request, parsed from its form. */
export interface TranscriptionForm {
  readonly file: Blob;
  readonly model: string | null;
  readonly stream: boolean;
  readonly verbose: boolean;
  readonly wantsSegments: boolean;
  readonly options: {
    /** `null` to detect it. */
    readonly language: string | null;
    readonly words: boolean;
    readonly prompt: string | null;
    readonly temperature: number;
  };
}

const granularities = ["word", "segment"];

export async function readTranscriptionForm(request: Request): Promise<TranscriptionForm | RequestError> {
  let form: FormData;
  try {
    form = await request.formData();
  } catch {
    return requestError(400, "The body is not valid multipart/form-data.");
  }
  const file = form.get("file");
  if (file === null) return requestError(400, "`file` is missing.", { param: "file", code: "missing_required_parameter" });
  if (typeof file === "string") return requestError(400, "`file` must be a file.", { param: "file", code: "invalid_type" });

  const format = text(form, "response_format") ?? "json";
  const temperature = text(form, "temperature");
  const requested = ["timestamp_granularities[]", "timestamp_granularities"].flatMap((name) => form.getAll(name)).map(String);
  const language = languageOf(form);
  if (language !== null && typeof language !== "string") return language;
  const error = firstError([
    checkNumber({ temperature: temperature === null ? null : Number(temperature) }, "temperature", 0, 1),
    checkFormat(format),
    checkGranularities(requested, format),
    checkStream(text(form, "stream")),
    checkAbilities(form),
  ]);
  if (error !== null) return error;
  return {
    file,
    model: text(form, "model"),
    stream: text(form, "stream") === "true",
    verbose: format === "verbose_json",
    wantsSegments: requested.length === 0 || requested.includes("segment"),
    options: {
      language,
      words: requested.includes("word"),
      prompt: text(form, "prompt"),
      temperature: Number(temperature ?? 0),
    },
  };
}

function languageOf(form: FormData): string | null | RequestError {
  const asked = text(form, "language");
  if (asked === null) return null;
  const known = languageCode(asked);
  return known ?? requestError(400, "The model does not support this language.", { param: "language", code: "invalid_value" });
}

/** An empty field counts as missing. */
function text(form: FormData, name: string): string | null {
  const value = form.get(name);
  return typeof value === "string" && value !== "" ? value : null;
}

function checkFormat(format: string): RequestError | null {
  if (format === "json" || format === "verbose_json") return null;
  return requestError(400, "`response_format` must be json or verbose_json.", { param: "response_format", code: "unsupported_value" });
}

function checkGranularities(requested: readonly string[], format: string): RequestError | null {
  const param = "timestamp_granularities";
  if (requested.some((item) => !granularities.includes(item))) {
    return requestError(400, `\`${param}\` must be word or segment.`, { param, code: "invalid_value" });
  }
  if (requested.length === 0 || format === "verbose_json") return null;
  return requestError(400, `\`${param}\` requires \`response_format: verbose_json\`.`, { param, code: "invalid_value" });
}

function checkStream(stream: string | null): RequestError | null {
  if (stream === null || stream === "true" || stream === "false") return null;
  return requestError(400, "`stream` must be true or false.", { param: "stream", code: "invalid_type" });
}

/** Parameters that the model cannot honour are rejected, not ignored: the client would believe that they had an effect. */
function checkAbilities(form: FormData): RequestError | null {
  const names = [...new Set(form.keys())].filter((name) => form.getAll(name).some((value) => value !== ""));
  const asked = (param: string): readonly string[] => names.filter((name) => name === param || name.startsWith(`${param}[`));
  if (asked("include").length > 0) return unsupported("include", "This model does not return log probabilities.");
  const speakers = ["known_speaker_names", "known_speaker_references"].find((param) => asked(param).length > 0);
  if (speakers !== undefined) return unsupported(speakers, "This model does not distinguish speakers.");
  const isAutomatic = asked("chunking_strategy").every((name) => isAuto(name, form.getAll(name)));
  return isAutomatic ? null : unsupported("chunking_strategy", "This model splits the audio itself: `chunking_strategy` must be auto.");
}

function isAuto(name: string, values: readonly unknown[]): boolean {
  return name === "chunking_strategy" && values.every((value) => value === "auto" || value === '"auto"' || value === "null");
}
