import { languageCode } from "../transcription/languages.ts";
import { checkNumber, firstRefusal, unsupported } from "./fields.ts";
import { refusal, type Refusal } from "./refusal.ts";

/** A request for a transcript, read from its form. */
export interface TranscriptionForm {
  readonly file: Blob;
  readonly model: string | null;
  readonly stream: boolean;
  readonly verbose: boolean;
  readonly wantsSegments: boolean;
  readonly wishes: {
    /** `null`: to be detected. */
    readonly language: string | null;
    readonly words: boolean;
    readonly prompt: string | null;
    readonly temperature: number;
  };
}

const granularities = ["word", "segment"];

export async function readTranscriptionForm(request: Request): Promise<TranscriptionForm | Refusal> {
  let form: FormData;
  try {
    form = await request.formData();
  } catch {
    return refusal(400, "The body is not valid multipart/form-data.");
  }
  const file = form.get("file");
  if (file === null) return refusal(400, "`file` is missing.", { param: "file", code: "missing_required_parameter" });
  if (typeof file === "string") return refusal(400, "`file` must be a file.", { param: "file", code: "invalid_type" });

  const format = text(form, "response_format") ?? "json";
  const temperature = text(form, "temperature");
  const wanted = ["timestamp_granularities[]", "timestamp_granularities"].flatMap((name) => form.getAll(name)).map(String);
  const language = languageOf(form);
  if (language !== null && typeof language !== "string") return language;
  const refused = firstRefusal([
    checkNumber({ temperature: temperature === null ? null : Number(temperature) }, "temperature", 0, 1),
    checkFormat(format),
    checkGranularities(wanted, format),
    checkStream(text(form, "stream")),
    checkAbilities(form),
  ]);
  if (refused !== null) return refused;
  return {
    file,
    model: text(form, "model"),
    stream: text(form, "stream") === "true",
    verbose: format === "verbose_json",
    wantsSegments: wanted.length === 0 || wanted.includes("segment"),
    wishes: {
      language,
      words: wanted.includes("word"),
      prompt: text(form, "prompt"),
      temperature: Number(temperature ?? 0),
    },
  };
}

function languageOf(form: FormData): string | null | Refusal {
  const asked = text(form, "language");
  if (asked === null) return null;
  const known = languageCode(asked);
  return known ?? refusal(400, "This language is not among those the model knows.", { param: "language", code: "invalid_value" });
}

/** An empty field is as good as none. */
function text(form: FormData, name: string): string | null {
  const value = form.get(name);
  return typeof value === "string" && value !== "" ? value : null;
}

function checkFormat(format: string): Refusal | null {
  if (format === "json" || format === "verbose_json") return null;
  return refusal(400, "`response_format` must be json or verbose_json.", { param: "response_format", code: "unsupported_value" });
}

function checkGranularities(wanted: readonly string[], format: string): Refusal | null {
  const param = "timestamp_granularities";
  if (wanted.some((item) => !granularities.includes(item))) {
    return refusal(400, `\`${param}\` must be word or segment.`, { param, code: "invalid_value" });
  }
  if (wanted.length === 0 || format === "verbose_json") return null;
  return refusal(400, `\`${param}\` needs the format verbose_json.`, { param, code: "invalid_value" });
}

function checkStream(stream: string | null): Refusal | null {
  if (stream === null || stream === "true" || stream === "false") return null;
  return refusal(400, "`stream` must be true or false.", { param: "stream", code: "invalid_type" });
}

/** What the model cannot do is refused, never passed over: the client would take the transcript for one that obeyed. */
function checkAbilities(form: FormData): Refusal | null {
  const names = [...new Set(form.keys())].filter((name) => form.getAll(name).some((value) => value !== ""));
  const asked = (param: string): readonly string[] => names.filter((name) => name === param || name.startsWith(`${param}[`));
  if (asked("include").length > 0) return unsupported("include", "This model's probabilities are not given out.");
  const speakers = ["known_speaker_names", "known_speaker_references"].find((param) => asked(param).length > 0);
  if (speakers !== undefined) return unsupported(speakers, "This model does not tell speakers apart.");
  const isAutomatic = asked("chunking_strategy").every((name) => isAuto(name, form.getAll(name)));
  return isAutomatic ? null : unsupported("chunking_strategy", "This model cuts the audio by itself: `chunking_strategy` must be auto.");
}

function isAuto(name: string, values: readonly unknown[]): boolean {
  return name === "chunking_strategy" && values.every((value) => value === "auto" || value === '"auto"' || value === "null");
}
