import { viewOf } from "../containers/bytes.ts";
import { id3HeaderBytes, id3TagBytes } from "../containers/id3.ts";
import type { StoredFile } from "../stored-file.ts";

/** The most that is looked at in one place. */
export const windowBytes = 64 * 1024;

/** Some bytes of a file, with a view of their numbers. They may be fewer than wanted. */
export interface ByteWindow {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** At most `length` bytes from an offset. Those that the head holds cost no read. */
export async function windowAt(file: StoredFile, from: number, length: number): Promise<ByteWindow> {
  const wanted = Math.max(0, Math.min(length, windowBytes, file.length - from));
  const bytes = from + wanted <= file.head.length || wanted === 0 ? file.head.subarray(from, from + wanted) : await file.read(from, wanted);
  return { bytes, view: viewOf(bytes) };
}

/** Where the content begins, behind the ID3v2 tags that may stand before it. */
export async function pastTags(file: StoredFile): Promise<number> {
  let at = 0;
  for (let tags = 0; tags < tagsMax; tags++) {
    const tagBytes = id3TagBytes((await windowAt(file, at, id3HeaderBytes)).bytes, 0);
    if (typeof tagBytes === "string") break;
    at += tagBytes;
  }
  return at;
}

const tagsMax = 4;
