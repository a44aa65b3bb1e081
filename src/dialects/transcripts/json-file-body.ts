import type { StoredFile } from "../../media/stored-file.ts";
import type { JsonObject } from "../../operations/json.ts";
import type { StreamedBody } from "../dialect.ts";
import { partBytesMax, partsOf } from "./file-body.ts";

/**
 * A JSON document that holds a file in base64, without holding either in memory. `member` is the empty text of the document that the file
 * replaces. A text of the client cannot be taken for it, because the quotes of a text are escaped.
 */
export function jsonFileBody(document: JsonObject, member: string, file: StoredFile): StreamedBody {
  const mark = `"${member}":"`;
  const text = JSON.stringify(document);
  const at = text.indexOf(`${mark}"`);
  if (at === -1) throw new Error(`the document has no empty ${member}`);
  const before = encoder.encode(text.slice(0, at + mark.length));
  const after = encoder.encode(text.slice(at + mark.length));
  return {
    length: before.length + Math.ceil(file.length / 3) * 4 + after.length,
    parts: () => documentParts(before, file, after),
  };
}

const encoder = new TextEncoder();

async function* documentParts(before: Uint8Array, file: StoredFile, after: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield* slices(before);
  let left = new Uint8Array(0);
  for await (const part of partsOf(file)) {
    const bytes = new Uint8Array(left.length + part.length);
    bytes.set(left);
    bytes.set(part, left.length);
    // Three bytes are four letters. What is left of them goes with the next part.
    const whole = bytes.length - (bytes.length % 3);
    if (whole > 0) yield encoder.encode(bytes.subarray(0, whole).toBase64());
    left = bytes.slice(whole);
  }
  if (left.length > 0) yield encoder.encode(left.toBase64());
  yield* slices(after);
}

function* slices(bytes: Uint8Array): Generator<Uint8Array, void> {
  for (let at = 0; at < bytes.length; at += partBytesMax) yield bytes.slice(at, at + partBytesMax);
}
