import { matchText } from "./bytes.ts";

export const id3HeaderBytes = 10;

/** The length of the ID3v2 tag at an offset, with header and footer; `more` where its header has not all come, `no` where none begins. */
export function id3TagBytes(bytes: Uint8Array, at: number): number | "more" | "no" {
  const mark = matchText(bytes, at, "ID3");
  if (mark !== "yes") return mark;
  if (bytes.length - at < id3HeaderBytes) return "more";
  const [a, b, c, d] = [bytes[at + 6]!, bytes[at + 7]!, bytes[at + 8]!, bytes[at + 9]!];
  // A size has seven bits a byte (ID3v2.4, section 6.2), so that no tag can look like the start of a frame.
  if ((a | b | c | d) > 0x7f) return "no";
  const hasFooter = (bytes[at + 5]! & 0x10) !== 0;
  return id3HeaderBytes + ((a << 21) | (b << 14) | (c << 7) | d) + (hasFooter ? id3HeaderBytes : 0);
}
