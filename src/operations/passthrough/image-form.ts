import { isFailure, type Failure } from "../failure.ts";
import { empty, missing, misspelledName, mistake, modelMistake } from "../mistakes.ts";
import { bytesPerToken } from "../request-fields.ts";
import type { ImageTask, PassthroughRequest } from "./passthrough-request.ts";

/** One part of a form that is in memory. */
export interface ImageFormPart {
  readonly name: string;
  /** Null for a field that is not a file. */
  readonly fileName: string | null;
  readonly type: string | null;
  readonly content: Uint8Array;
}

/**
 * Reads the form of `POST /v1/images/edits` or `/variations`. It is written anew, because an upstream that splits it in another way than
 * the gateway could find a model in it that the key may not use: with a boundary that its client could not know, and with each of the
 * fields that the gateway decides on once.
 */
export function readImageForm(task: ImageTask, parts: readonly ImageFormPart[], boundary: string): PassthroughRequest | Failure {
  for (const { name } of parts) {
    const wrong = misspelledName(name, decidedOn);
    if (wrong !== null) return wrong;
  }
  const fields = parts.filter(
    (part, index) => !decidedOn.has(part.name) || index === parts.findLastIndex(({ name }) => name === part.name),
  );
  const model = textField(fields, "model");
  if (isFailure(model)) return model;
  if (model.text === null) return missing("model");
  const wrong = modelMistake(model.text);
  if (wrong !== null) return wrong;
  if (!fields.some(({ name, fileName }) => fileName !== null && isImageName(name))) return missing("image");
  const prompt = textField(fields, "prompt");
  if (isFailure(prompt)) return prompt;
  if (task === "edits" && prompt.text === null) return missing("prompt");
  if (prompt.text === "") return empty("prompt");
  const count = textField(fields, "n");
  if (isFailure(count)) return count;
  const choices = count.text === null ? 1 : Number(count.text);
  if (!Number.isInteger(choices) || choices < 1 || choices > imagesMax) {
    return mistake(`'n' must be a whole number from 1 to ${imagesMax}.`, "invalid_value", "n");
  }
  const stream = textField(fields, "stream");
  if (isFailure(stream)) return stream;
  const streamed = stream.text?.toLowerCase() ?? "false";
  if (streamed !== "true" && streamed !== "false") return mistake("'stream' must be true or false.", "invalid_value", "stream");
  const { body, modelAt } = written(
    fields.filter(({ name }) => name !== "model"),
    boundary,
  );
  return {
    operation: "image",
    body,
    document: { start: 0, end: body.length },
    members: [],
    model: model.text,
    stream: streamed === "true",
    wantsUsage: false,
    choices,
    maxTokens: null,
    promptTokensEstimate: Math.ceil((prompt.text?.length ?? 0) / bytesPerToken) + fields.filter(isImage).length * inputImageTokens,
    contextTokens: 0,
    form: { task, type: `multipart/form-data; boundary=${boundary}`, modelAt, text: prompt.text ?? "" },
  };
}

/** The fields that the gateway decides on. Of one that is repeated, the last counts. */
const decidedOn: ReadonlySet<string> = new Set(["model", "n", "stream", "prompt"]);
/** As many as the OpenAI API allows. */
const imagesMax = 10;
/** What an image of the input costs, where images are billed as tokens. */
const inputImageTokens = 1000;

function isImageName(name: string): boolean {
  return name === "image" || name.startsWith("image[");
}

function isImage({ name, fileName }: ImageFormPart): boolean {
  return fileName !== null && isImageName(name);
}

function textField(fields: readonly ImageFormPart[], name: string): { readonly text: string | null } | Failure {
  const field = fields.find((each) => each.name === name);
  if (field === undefined) return { text: null };
  if (field.fileName !== null) return mistake(`'${name}' must be a plain field, not a file.`, "invalid_type", name);
  try {
    return { text: utf8.decode(field.content) };
  } catch {
    return mistake(`The field '${name}' is not valid UTF-8.`, "invalid_value", name);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The form, with an empty value for the model at the end of its first part. */
function written(fields: readonly ImageFormPart[], boundary: string): { readonly body: Uint8Array; readonly modelAt: number } {
  const first = encoder.encode(`--${boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\n`);
  const pieces = [first, ...fields.flatMap((field) => [encoder.encode(headOf(field, boundary)), field.content])];
  pieces.push(encoder.encode(`\r\n--${boundary}--\r\n`));
  const body = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    body.set(piece, at);
    at += piece.length;
  }
  return { body, modelAt: first.length };
}

const encoder = new TextEncoder();

function headOf({ name, fileName, type }: ImageFormPart, boundary: string): string {
  const file =
    fileName === null
      ? ""
      : `; filename="${quotable(fileName === "" ? "image" : fileName)}"\r\nContent-Type: ${type ?? "application/octet-stream"}`;
  return `\r\n--${boundary}\r\nContent-Disposition: form-data; name="${quotable(name)}"${file}\r\n\r\n`;
}

/** Escapes a name for quotes as browsers do; backslashes are replaced too, because some parsers take them for escapes. */
function quotable(name: string): string {
  return name.replace(/[\p{Cc}\u2028\u2029\\]/gu, "_").replaceAll('"', "%22");
}
