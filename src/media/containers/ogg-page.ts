/** The head of an Ogg page: what it says of the page, and the table of its segments. */
export interface OggPage {
  /** Of the head alone: the content begins behind it. */
  readonly headBytes: number;
  readonly contentBytes: number;
  readonly begins: boolean;
  readonly ends: boolean;
}

export const oggHeadBytesMin = 27;

/** The head of the page at an offset; `more` where its bytes have not all come, `no` where no page begins. */
export function oggPageAt(bytes: Uint8Array, at: number): OggPage | "more" | "no" {
  for (let index = 0; index < magic.length; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return "more";
    if (byte !== magic[index]) return "no";
  }
  const flags = bytes[at + 5];
  const segments = bytes[at + oggHeadBytesMin - 1];
  if (flags === undefined || segments === undefined || bytes.length - at < oggHeadBytesMin + segments) return "more";
  let contentBytes = 0;
  for (let index = 0; index < segments; index++) contentBytes += bytes[at + oggHeadBytesMin + index]!;
  return { headBytes: oggHeadBytesMin + segments, contentBytes, begins: (flags & 2) !== 0, ends: (flags & 4) !== 0 };
}

/** `OggS`, and the one version there is. */
const magic = [0x4f, 0x67, 0x67, 0x53, 0];
