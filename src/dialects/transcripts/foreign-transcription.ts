import { failure, type Failure } from "../../operations/failure.ts";
import { listIn } from "../../operations/transcription/form-lists.ts";
import { languageCode, standardCode } from "../../operations/transcription/languages.ts";
import type { FormField } from "../../media/stored-file.ts";
import { spokenLanguage, type TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";

/** The words that the upstream is asked to expect. */
export function keywordsIn(fields: readonly FormField[]): readonly string[] {
  return listIn(fields, "keywords")
    .map((word) => word.trim())
    .filter((word) => word !== "");
}

/** The ISO 639 code of the language; an unknown one is sent as the client wrote it. Null if it is to be detected. */
export function standardLanguage({ fields, language }: TranscriptionRequest): string | null {
  return language === null ? spokenLanguage(fields) : standardCode(language);
}

/** The same with the client's region, if there is one. */
export function languageTag(ask: TranscriptionRequest): string | null {
  const { fields, language } = ask;
  const spoken = spokenLanguage(fields) ?? "";
  const isTag = /^[a-z]{2,3}[-_][a-z\d]{2,4}$/i.test(spoken) && languageCode(spoken) === language;
  return isTag ? spoken.replace("_", "-") : standardLanguage(ask);
}

/** The names of the fields that a dialect does not support, made safe for a log and a header: a client can choose any name. */
export function droppedFrom({ fields }: TranscriptionRequest, carried: readonly string[]): readonly string[] {
  const names = fields
    .filter(({ value }) => value !== "")
    .map(({ name }) => shownName(name))
    .filter((name) => name !== "" && !understood.has(name) && !carried.includes(name));
  return [...new Set(names)].slice(0, droppedMax);
}

/** An object is written as several fields, `name[key]` each. */
function shownName(name: string): string {
  const [plain = ""] = name.split("[", 1);
  return plain.replace(/[^\w.-]/g, "_").slice(0, nameLengthMax);
}

/** The fields that the gateway handles for every dialect. */
const understood: ReadonlySet<string> = new Set(["model", "file", "stream", "response_format", "timestamp_granularities", "language"]);

const droppedMax = 32;
const nameLengthMax = 64;

/** The dialects that use this do not translate speech. */
export function translationUnsupported(): Failure {
  return failure("unsupported", "the channel does not translate speech", {
    message: "No channel for this model supports translation.",
    status: 400,
    type: "invalid_request_error",
    code: "unsupported_value",
    param: "model",
  });
}
