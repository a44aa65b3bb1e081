/** What a file says of its length, and what can be held against it. */
export interface Length {
  readonly seconds: number;
  /** How many bytes of the file are sound. */
  readonly soundBytes: number;
  /** The most bytes that a second of it can have. Infinity where its length was counted from its bytes. */
  readonly bytesPerSecondMax: number;
  /** The file ends before what it says is in it. `seconds` is what is there, as far as that can be told. */
  readonly isCut: boolean;
}

/**
 * The seconds, where they go with the bytes: too few would have more bytes a second than the codec can have, too many fewer than
 * silence has. A length that contradicts the bytes is dropped, and the caller estimates from the bytes.
 */
export function plausibleSeconds({ seconds, soundBytes, bytesPerSecondMax }: Length): number | null {
  const isPossible = soundBytes <= seconds * bytesPerSecondMax + slackBytes && soundBytes + slackBytes >= seconds * bytesPerSecondMin;
  return isPossible ? seconds : null;
}

/** Heads, tables and whatever else stands between the sound. */
const slackBytes = 16 * 1024;
/** Silence of Opus or of a lossless codec. */
const bytesPerSecondMin = 16;

/** Of one channel: AAC has up to 288 kbit/s, Opus 255, Vorbis 250. */
export const lossyBytesPerSecond = 40_000;
/** MPEG layer III has up to 320 kbit/s for all channels, layers I and II up to 448. */
export const mpegBytesPerSecond = 57_000;
/** Eight channels of 32 bit at 192 kHz, not compressed. */
export const plainBytesPerSecond = 6_200_000;
/** A picture beside the sound: 200 Mbit/s. */
export const videoBytesPerSecond = 25_000_000;
