import type { FormFile, StoredFile } from "../../media/stored-file.ts";
import type { StreamedBody } from "../dialect.ts";

/** Large enough that the cost of a part is that of its bytes, small enough to hold one in memory for every upload in flight. */
export const partBytesMax = 256 * 1024;

/** A file as a whole request body. */
export function fileBody(file: StoredFile): StreamedBody {
  return { length: file.length, parts: () => partsOf(file) };
}

/** The bytes of a file from its beginning. Throws if the file has become shorter. */
export async function* partsOf(file: StoredFile): AsyncGenerator<Uint8Array, void> {
  let at = 0;
  while (at < file.length) {
    const part = await file.read(at, Math.min(partBytesMax, file.length - at));
    if (part.length === 0) throw new Error(`the file ended after ${at} of ${file.length} bytes`);
    at += part.length;
    yield part;
  }
}

/** The media type of a file, if it is safe in a header; `application/octet-stream` otherwise. */
export function typeOf({ type }: FormFile): string {
  return type !== null && type.length <= typeLengthMax && mediaType.test(type) ? type : unknownType;
}

/** With parameters, each a token or quoted; browsers write a list of codecs without quotes. */
const mediaType = /^[\w.+-]{1,64}\/[\w.+-]{1,64}(?: ?; ?[\w.+-]{1,64}=(?:[\w.,+-]{0,100}|"[ \w.,+-]{0,100}"))*;?$/;
const typeLengthMax = 255;

export const unknownType = "application/octet-stream";
