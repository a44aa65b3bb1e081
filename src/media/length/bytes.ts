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
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
}

/** Whether the bytes at an offset are these characters. */
export function says(bytes: Uint8Array, at: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) if (bytes[at + index] !== word.charCodeAt(index)) return false;
  return true;
}

/** A number of 64 bits. Beyond 2^53 it is not exact, and nothing that is that long is believed. */
export function longAt(view: DataView, at: number, littleEndian = false): number {
  const [first, second] = [view.getUint32(at, littleEndian), view.getUint32(at + 4, littleEndian)];
  return littleEndian ? second * 2 ** 32 + first : first * 2 ** 32 + second;
}

/** Where the content begins, behind the ID3v2 tags that may stand before it. */
export async function pastTags(file: StoredFile): Promise<number> {
  let at = 0;
  for (let tags = 0; tags < tagsMax; tags++) {
    const { bytes } = await windowAt(file, at, tagHeadBytes);
    if (bytes.length < tagHeadBytes || !says(bytes, 0, "ID3")) break;
    const size = bytes.subarray(6, 10).reduce((sum, byte) => sum * 128 + (byte & 0x7f), 0);
    at += tagHeadBytes + size + ((bytes[5]! & 0x10) === 0 ? 0 : tagHeadBytes);
  }
  return at;
}

const tagHeadBytes = 10;
const tagsMax = 4;
