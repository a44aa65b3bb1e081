/** Where the samples of a WAV begin, and how many bytes of them it announces. */
export interface WavData {
  readonly start: number;
  /** Null where the encoder could not know and wrote a placeholder. */
  readonly lengthBytes: number | null;
  /** Of one sample of all channels. */
  readonly blockBytes: number;
}

/** The `data` chunk of what begins with `RIFF`; `more` where it has not come, or what is wrong. */
export function wavData(bytes: Uint8Array): WavData | "more" | { readonly wrong: string } {
  if (bytes.length < 12) return "more";
  if (tagAt(bytes, 8) !== "WAVE") return { wrong: "the answer is a RIFF file, but not WAVE" };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let blockBytes = 0;
  let at = 12;
  while (at + 8 <= bytes.length) {
    const tag = tagAt(bytes, at);
    const length = view.getUint32(at + 4, true);
    if (tag === "data") {
      if (blockBytes === 0) return { wrong: "the WAV has samples before their format" };
      return { start: at + 8, lengthBytes: length === 0 || length >= placeholderMin ? null : length, blockBytes };
    }
    if (tag === "fmt ") {
      if (at + 24 > bytes.length) return "more";
      const channels = view.getUint16(at + 10, true);
      const rate = view.getUint32(at + 12, true);
      blockBytes = view.getUint16(at + 20, true);
      if (length < 16 || channels === 0 || rate === 0 || blockBytes === 0) return { wrong: "the WAV has a format without meaning" };
    }
    at += 8 + length + (length % 2);
  }
  return "more";
}

/** Encoders that stream write something near the largest number there is; no speech is two gigabytes long. */
const placeholderMin = 0x7fff_0000;

function tagAt(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(bytes[at]!, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!);
}
