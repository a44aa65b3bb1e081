import type { FormField, FormFile } from "../../media/stored-file.ts";
import type { StreamedBody } from "../dialect.ts";
import { partBytesMax, partsOf, typeOf } from "./file-body.ts";

/** A form that is not held in memory, and the content type it is sent with. */
export interface MultipartForm {
  readonly body: StreamedBody;
  readonly type: string;
}

/**
 * A form with its fields and then its file, which can be sent several times.
 *
 * A client that knew the boundary could write it into its file and add fields of its own, such as a model that its key may not use. So
 * the boundary contains a random value that is chosen after the file has arrived. Fields and the head of the file are searched for it
 * nevertheless, and the rest of the file while it is sent; a file that contains it is not sent on.
 */
export function multipartBody(fields: readonly FormField[], file: FormFile, fileField = "file"): MultipartForm {
  const boundary = boundaryFor(fields, file);
  const heads = fields.map(
    ({ name, value }) => `--${boundary}\r\nContent-Disposition: form-data; name="${quotable(name)}"\r\n\r\n${value}\r\n`,
  );
  const fileHead = `--${boundary}\r\nContent-Disposition: form-data; name="${fileField}"; filename="${fileName(file)}"\r\nContent-Type: ${typeOf(file)}\r\n\r\n`;
  const before = encoder.encode(heads.join("") + fileHead);
  const after = encoder.encode(`\r\n--${boundary}--\r\n`);
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: {
      length: before.length + file.content.length + after.length,
      parts: () => formParts(before, file, after, encoder.encode(boundary)),
    },
  };
}

const encoder = new TextEncoder();

async function* formParts(before: Uint8Array, file: FormFile, after: Uint8Array, boundary: Uint8Array): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < before.length; at += partBytesMax) yield before.slice(at, at + partBytesMax);
  const holds = boundarySearch(boundary);
  for await (const part of partsOf(file.content)) {
    if (holds(part)) throw new Error("the file holds the boundary of the form");
    yield part;
  }
  yield after.slice();
}

/** Long and random, so that no recording contains it by chance. */
const unsealed = "9e2b7c41d0a84f6fb35c18e7a96d0423";

/** The first of a series of boundaries that neither the fields nor the head of the file contain. */
function boundaryFor(fields: readonly FormField[], { name, content }: FormFile): string {
  const boundaryStem = `sluice-form-${content.seal ?? unsealed}-`;
  const head = decoder.decode(content.head);
  const taken = [head, name, ...fields.flatMap((field) => [field.name, field.value])].filter((text) => text.includes(boundaryStem));
  for (let number = 0; ; number++) {
    const boundary = `${boundaryStem}${number}-`;
    if (!taken.some((text) => text.includes(boundary))) return boundary;
  }
}

const decoder = new TextDecoder("latin1");

/** Searches consecutive chunks for a boundary, also across their borders. */
function boundarySearch(boundary: Uint8Array): (part: Uint8Array) => boolean {
  const skips = skipsOf(boundary);
  const overlap = boundary.length - 1;
  let tail = new Uint8Array(0);
  return (part) => {
    const seam = joined(tail, part.subarray(0, overlap));
    const found = includes(seam, boundary, skips) || includes(part, boundary, skips);
    const rest = part.length < overlap ? seam : part;
    // A copy: the part belongs to the caller, and `slice` of a Buffer would be a view.
    tail = new Uint8Array(rest.subarray(Math.max(0, rest.length - overlap)));
    return found;
  };
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** The skip table of the Boyer-Moore-Horspool search, which examines only one byte in dozens. */
function skipsOf(wanted: Uint8Array): Uint8Array {
  const skips = new Uint8Array(256).fill(wanted.length);
  for (let index = 0; index < wanted.length - 1; index++) skips[wanted[index]!] = wanted.length - 1 - index;
  return skips;
}

function includes(bytes: Uint8Array, wanted: Uint8Array, skips: Uint8Array): boolean {
  const last = wanted.length - 1;
  for (let end = last; end < bytes.length; end += skips[bytes[end]!]!) {
    let matched = 0;
    while (matched <= last && bytes[end - matched] === wanted[last - matched]) matched++;
    if (matched > last) return true;
  }
  return false;
}

/** The end of a long file name is kept, because its extension tells the format. */
function fileName({ name }: FormFile): string {
  const quoted = quotable(name.slice(-nameLengthMax).toWellFormed());
  return quoted === "" ? "audio" : quoted;
}

const nameLengthMax = 200;

/** Escapes a name for quotes as browsers do; backslashes are replaced too, because some parsers take them for escapes. */
function quotable(name: string): string {
  return name.replace(/[\p{Cc}\u2028\u2029\\]/gu, "_").replaceAll('"', "%22");
}
