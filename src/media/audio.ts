/** What speech may come as, in the names of the OpenAI API. `pcm` is 24 kHz, signed 16 bit little-endian, mono, bare. */
export type AudioFormat = "mp3" | "opus" | "aac" | "flac" | "wav" | "pcm";

export const audioFormats: readonly AudioFormat[] = ["mp3", "opus", "aac", "flac", "wav", "pcm"];

export const audioTypes: { readonly [F in AudioFormat]: string } = {
  mp3: "audio/mpeg",
  opus: "audio/ogg",
  aac: "audio/aac",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm",
};

/**
 * Turns audio of one format into another as it comes. It is used by one reader, one call at a time. What it gives is
 * ready to be sent, and bounded: pushing an empty array gives what is left of it. An empty answer means that it needs
 * more before it can give anything. It throws what it cannot read, and `TranscoderLost` where that is not the audio's fault.
 */
export interface Transcoder {
  push(bytes: Uint8Array): Promise<Uint8Array>;
  /** No more will come: all of the rest, with whatever ends the format. */
  end(): Promise<Uint8Array>;
  /** Gives it up early, in whatever state. After `end` it does nothing. */
  destroy(): void;
}

/** Makes transcoders; `null` where this installation has no codecs for the pair. */
export type MakeTranscoder = (from: AudioFormat, to: AudioFormat) => Promise<Transcoder | null>;

/** A transcoder that is gone or never was, through no fault of the audio: its worker was lost or got stuck, or a codec failed. */
export class TranscoderLost extends Error {
  override readonly name = "TranscoderLost";
}

/** The longest audio that is believed: ten thousand hours. A longer figure is a fault of whoever reports it. */
export const secondsMax = 36_000_000;
