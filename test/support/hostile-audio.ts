import { leftOutMp4 } from "./containers.ts";

/** A WebM file of 88 bytes that a demuxer never came back from: it looked for its place again and again. */
export function endlessWebm(): Uint8Array<ArrayBuffer> {
  const opening = "1a45dfa39f4286810142f7810142f2810442f381084282847765626d42878104428581021853806701ffffffffffffff";
  return Uint8Array.from([...Buffer.from(opening, "hex"), ...Array.from({ length: 40 }, () => 0x11)]);
}

/** Takes a minute to decode, and nothing comes of it: two hours of silence at a high rate, all left out by the file's own word. */
export function slowMp4(): Uint8Array<ArrayBuffer> {
  const [sampleRate, seconds] = [384_000, 7200];
  return leftOutMp4(silentFlac(sampleRate, seconds), sampleRate, seconds);
}

const blockSamples = 65_536;

/** FLAC of nothing but the longest frames of silence: 13 bytes for 65536 samples. */
export function silentFlac(sampleRate: number, seconds: number): Uint8Array<ArrayBuffer> {
  const info = Buffer.alloc(42);
  info.write("fLaC", "latin1");
  info.set([0x80, 0, 0, 34, 0xff, 0xff, 0xff, 0xff], 4);
  // The rate in 20 bits, one channel, 16 bits a sample.
  info.set([sampleRate >> 12, (sampleRate >> 4) & 0xff, (sampleRate & 0xf) << 4, 0xf0], 18);
  const header = [0xff, 0xf8, 0x70, 0x08, 0, 0xff, 0xff];
  const body = [...header, checksum(header, 0x07, 8), 0, 0, 0];
  const check = checksum(body, 0x80_05, 16);
  const frame = Buffer.from([...body, check >> 8, check & 0xff]);
  const frames = Array.from({ length: Math.ceil((seconds * sampleRate) / blockSamples) }, () => frame);
  return Uint8Array.from(Buffer.concat([info, ...frames]));
}

function checksum(bytes: readonly number[], polynomial: number, bits: number): number {
  let rest = 0;
  for (const byte of bytes) {
    rest ^= byte << (bits - 8);
    for (let bit = 0; bit < 8; bit++) rest = (rest << 1) ^ (((rest >> (bits - 1)) & 1) * polynomial);
    rest &= 2 ** bits - 1;
  }
  return rest;
}
