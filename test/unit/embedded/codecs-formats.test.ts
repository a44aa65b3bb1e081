import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { decodeFile } from "../../../packages/embedded/src/codecs/decode-file.ts";
import { decodeStream } from "../../../packages/embedded/src/split/decode-stream.ts";
import { joinSamples } from "../../../packages/embedded/src/codecs/bytes.ts";
import { likeness } from "../../support/signal.ts";

const fixture = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../../fixtures/audio/formats/${name}`, import.meta.url)));

/** How far the worst sample may be from the original; null for the codecs of four bits a sample, which are off at each sudden beginning. */
const files: readonly (readonly [what: string, name: string, worst: number | null])[] = [
  ["G.711 µ-law in WAV", "ulaw.wav", 0.02],
  ["G.711 A-law in WAV", "alaw.wav", 0.02],
  ["IMA ADPCM in WAV", "ima.wav", null],
  ["IMA ADPCM in stereo WAV", "ima-stereo.wav", null],
  ["Microsoft ADPCM in WAV", "ms.wav", null],
  ["Microsoft ADPCM in stereo WAV", "ms-stereo.wav", null],
  ["ALAC in M4A", "alac.m4a", 0],
  ["stereo ALAC in M4A", "alac-stereo.m4a", 0],
  ["stereo ALAC of 24 bit in M4A", "alac-24.m4a", 1e-4],
  ["ALAC in CAF", "alac.caf", 0],
  ["plain samples in CAF", "pcm.caf", 0],
  ["IMA ADPCM in CAF", "ima.caf", null],
  ["AIFF", "pcm.aiff", 0],
  ["stereo AIFF of 24 bit", "pcm-24.aiff", 1e-4],
  ["G.711 in AIFF-C", "ulaw.aifc", 0.02],
  ["IMA ADPCM in AIFF-C", "ima.aifc", null],
  ["floats in AIFF-C", "float.aifc", 1e-6],
  ["plain samples in QuickTime", "pcm.mov", 0],
  ["IMA ADPCM in QuickTime", "ima.mov", null],
  ["plain samples in Matroska", "pcm.mkv", 0],
];

describe.each(files)("%s", (_, name, worst) => {
  const isStereo = /stereo|24/.test(name);

  test("is read, sample by sample", async () => {
    expectSpeech(await decodeFile(fixture(name)), isStereo, worst);
  });

  test("is read as it comes, when a long recording is cut", async () => {
    const pieces: Float32Array[] = [];
    let sampleRate = 0;
    const bytes = fixture(name);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, index) => bytes.slice(index * 1000, (index + 1) * 1000));
    await decodeStream(chunks, bytes.length, (decoded) => {
      pieces.push(decoded.samples.slice());
      if (decoded.sampleRate > 0) ({ sampleRate } = decoded);
    });
    expectSpeech({ samples: joinSamples(pieces), sampleRate }, isStereo, worst);
  });

  test("cut in the middle of its sound is read up to there", async () => {
    const bytes = fixture(name);
    // FFmpeg writes the table of contents of these behind the sound.
    if (/m4a|mov|caf$/.test(name) && name !== "pcm.caf" && name !== "ima.caf") return;
    const { samples } = await decodeFile(bytes.subarray(0, Math.floor(bytes.length * 0.7)));
    expect(samples.length).toBeWithin(original.length * 0.4, original.length * 0.99);
    expect(likeness(original.subarray(0, samples.length), samples, 4).correlation).toBeGreaterThan(0.9);
  });
});

const original = (await decodeFile(fixture("speech.wav"))).samples;
const originalStereo = (await decodeFile(fixture("speech-stereo.wav"))).samples;

function expectSpeech(
  decoded: { readonly samples: Float32Array; readonly sampleRate: number },
  isStereo: boolean,
  worst: number | null,
): void {
  const expected = isStereo ? originalStereo : original;
  expect(decoded.sampleRate).toBe(8000);
  // Blocks are filled up with silence.
  expect(decoded.samples.length).toBeWithin(expected.length, expected.length + 2048);
  if (worst === null) {
    const { correlation, lag } = likeness(expected, decoded.samples.subarray(0, expected.length), 4);
    expect(lag).toBe(0);
    expect(correlation).toBeGreaterThan(0.98);
    return;
  }
  const errors = expected.map((sample, index) => Math.abs(sample - decoded.samples[index]!));
  expect(errors.reduce((a, b) => Math.max(a, b))).toBeLessThanOrEqual(worst);
}
