/** Audio that cannot be read; the message is fit to be shown to whoever sent it. */
export class UndecodableAudio extends Error {
  override readonly name = "UndecodableAudio";
}

/** Mono. Where there are no samples yet, the rate may still be unknown: then it is 0. */
export interface DecodedAudio {
  readonly samples: Float32Array;
  readonly sampleRate: number;
}

/**
 * Reads audio as it comes, cut at any byte; its samples do not depend on the cuts, and its rate stays what it first was.
 * It throws `UndecodableAudio` when what came cannot be of its format, at the latest when it ends without any audio.
 */
export interface StreamDecoder {
  push(bytes: Uint8Array): DecodedAudio;
  end(): DecodedAudio;
  destroy(): void;
}

/** Makes bytes of one format from mono samples in [-1, 1], as they come. */
export interface Encoder {
  /** What is ready to be sent; empty where more is needed first. */
  push(samples: Float32Array): Uint8Array;
  /** No more will come: the rest, with whatever ends the format. */
  end(): Uint8Array;
  destroy(): void;
}

/** An encoder that takes samples at one rate only. */
export interface FixedRateEncoder extends Encoder {
  readonly sampleRate: number;
}

/** Decodes bare packets of one codec, whatever container they came in. */
export interface PacketDecoder {
  /** Whether a stream of this kind begins with this packet. */
  isHead(packet: Uint8Array): boolean;
  /** How many packets come in front of the audio. */
  readonly headers: number;
  begin(headers: readonly Uint8Array[]): void;
  /** Known once it has begun, as is the number of samples to drop from the front. */
  readonly sampleRate: number;
  readonly preSkip: number;
  /** Mono; empty where the packet is damaged. */
  decode(packet: Uint8Array): Float32Array;
  destroy(): void;
}
