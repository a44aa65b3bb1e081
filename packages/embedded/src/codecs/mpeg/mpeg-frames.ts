import { mpegHeaderAt } from "../../../../../src/media/containers/mpeg-frame.ts";

/**
 * Where MPEG audio begins: at a frame that another one of its kind follows, for the mark alone occurs in any noise. With `ended`
 * a frame that ends with the bytes will do. -1 where there is none, or not yet.
 */
export function findMpegFrame(bytes: Uint8Array, ended: boolean): number {
  for (let at = bytes.indexOf(0xff); at >= 0; at = bytes.indexOf(0xff, at + 1)) {
    const header = mpegHeaderAt(bytes, at);
    if (typeof header === "string") continue;
    const end = at + header.lengthBytes;
    const next = mpegHeaderAt(bytes, end);
    if ((typeof next !== "string" && next.signature === header.signature) || (ended && end === bytes.length)) return at;
  }
  return -1;
}
