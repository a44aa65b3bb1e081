import { failure, type Failure } from "../../operations/failure.ts";
import { listIn } from "../../operations/transcription/form-lists.ts";
import { languageCode, standardCode } from "../../operations/transcription/languages.ts";
import type { FormField } from "../../media/stored-file.ts";
import { spokenLanguage, type TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";

/** The words a client wants to be listened for. */
export function keywordsIn(fields: readonly FormField[]): readonly string[] {
  return listIn(fields, "keywords")
    .map((word) => word.trim())
    .filter((word) => word !== "");
}

/** The language as the standard calls it; one that only the upstream can know goes as the client wrote it. Null: to be detected. */
export function standardLanguage({ fields, language }: TranscriptionRequest): string | null {
  return language === null ? spokenLanguage(fields) : standardCode(language);
}

/** The same with the client's region, where it gave one. */
export function languageTag(ask: TranscriptionRequest): string | null {
  const { fields, language } = ask;
  const said = spokenLanguage(fields) ?? "";
  const isTag = /^[a-z]{2,3}[-_][a-z\d]{2,4}$/i.test(said) && languageCode(said) === language;
  return isTag ? said.replace("_", "-") : standardLanguage(ask);
}

/** The names of the fields that a dialect does not carry, fit for a log or a header: a client may name a field anything. */
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

/** What the gateway sees to itself, for every dialect. */
const understood: ReadonlySet<string> = new Set(["model", "file", "stream", "response_format", "timestamp_granularities", "language"]);

const droppedMax = 32;
const nameLengthMax = 64;

/** Neither of the dialects that use this turns speech into another language. */
export function translationUnsupported(): Failure {
  return failure("unsupported", "the channel does not translate speech", {
    message: "Translation of speech cannot be served: no channel for this model can do it.",
    status: 400,
    type: "invalid_request_error",
    code: "unsupported_value",
    param: "model",
  });
}
