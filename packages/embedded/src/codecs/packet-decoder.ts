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

/** Whether the text stands at this place. */
export function says(bytes: Uint8Array, at: number, text: string): boolean {
  if (bytes.length < at + text.length) return false;
  for (let index = 0; index < text.length; index++) if (bytes[at + index] !== text.charCodeAt(index)) return false;
  return true;
}
