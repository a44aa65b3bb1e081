import { makeFlacDecoder } from "../../packages/embedded/src/codecs/flac/flac-decode.ts";
import { makeOggReader } from "../../packages/embedded/src/codecs/ogg/ogg-read.ts";
import { makeOggWriter } from "../../packages/embedded/src/codecs/ogg/ogg-write.ts";
import { makeAlacDecoder } from "../../packages/embedded/src/codecs/mp4/alac-decode.ts";
import { makeSampleReader } from "../../packages/embedded/src/codecs/wav/sample-formats.ts";
import { findAudioTrack } from "../../packages/embedded/src/codecs/containers/demux.ts";
import type { DemuxedTrack } from "../../packages/embedded/src/codecs/containers/demuxed-track.ts";
import { UndecodableAudio, type StreamDecoder } from "../../packages/embedded/src/codecs/codec.ts";
import { makeWavDecoder } from "../../packages/embedded/src/codecs/wav/wav-decode.ts";
import { oggChecksum } from "../../src/media/containers/ogg-page.ts";
import { audioFacts } from "../../src/media/length/audio-length.ts";
import { aiff, caf, fragmentedMp4, lyingContainers, m4a, wav, webm } from "../support/containers.ts";
import { silentFlac } from "../support/hostile-audio.ts";
import type { FuzzTarget } from "./target.ts";

/**
 * Whatever a container says of itself: there are no more packets in it than bytes, all of them together are no longer than the
 * file, no sample costs less than a sixteenth of a byte, and what cannot be read is refused in the one way there is for that.
 */
export const containersTarget: FuzzTarget = {
  name: "containers",
  seeds: [m4a(), fragmentedMp4(), webm(), aiff(), caf(), wav(), ogg(), silentFlac(8_000, 20), ...lyingContainers().map(([, file]) => file)],
  words: [
    ...["moov", "trak", "mdia", "minf", "stbl", "stsd", "stsc", "stsz", "stz2", "stco", "co64", "elst", "moof", "traf", "tfhd", "trun"],
    ...["mdat", "soun", "alac", "sowt", "ima4", "lpcm", "dOps", "wave", "COMM", "SSND", "AIFC", "ulaw", "desc", "kuki", "pakt", "data"],
    ...["fmt ", "\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\x80\0\0\0", "\0\0\0\0", "\0\0\0\x01", "\x01\0\0\0\0\0\0\0"],
    ...["\x01\xff\xff\xff\xff\xff\xff\xff", "\x1f\x43\xb6\x75", "\x18\x53\x80\x67", "\xa3\xff", "\xa0", "A_PCM/INT/LIT", "A_MS/ACM"],
  ],
  check: async (input) => {
    await expectFacts(input);
    try {
      return (streams.get(input[0] ?? 0) ?? containerOutcome)(input);
    } catch (error) {
      if (error instanceof UndecodableAudio) return error.message.replaceAll(/\(.*\)/gu, "");
      throw error;
    }
  },
};

/** The gateway reads the heads of the same files, for a length that goes with their bytes. */
async function expectFacts(input: Uint8Array): Promise<void> {
  const read = (from: number, length: number): Promise<Uint8Array> => Promise.resolve(input.subarray(from, from + length));
  const { seconds } = await audioFacts({ length: input.length, head: input.subarray(0, 64), read });
  if (seconds !== null && !(seconds > 0 && seconds <= (input.length + 16_384) * 4_000)) throw new Error(`it lasts ${seconds} seconds`);
}

/** By their first byte, those that are read as they come. */
const streams: ReadonlyMap<number, (input: Uint8Array) => string> = new Map([
  [0x52, waveOutcome],
  [0x4f, oggOutcome],
  [0x66, flacOutcome],
]);

function containerOutcome(input: Uint8Array): string {
  return trackOutcome(input, findAudioTrack(input));
}

function trackOutcome(input: Uint8Array, track: DemuxedTrack | null): string {
  if (track === null) return "nothing";
  const { coding } = track;
  const decoder =
    coding.codec === "samples" ? makeSampleReader(coding.format) : coding.codec === "alac" ? makeAlacDecoder(coding.description) : null;
  let [packets, bytes, samples] = [0, 0, 0];
  for (const packet of track.packets) {
    packets++;
    bytes += packet.length;
    if (packets > input.length || bytes > input.length * (1 + strippedShare)) throw new Error("there are more packets than bytes");
    samples += decoder === null ? 0 : samplesOf(decoder, packet, packets);
  }
  return `${coding.codec}, ${Math.ceil(Math.log2(1 + packets))}, ${Math.ceil(Math.log2(1 + samples))}`;
}

/** What was left out at the beginning of each packet of a Matroska file is put back. */
const strippedShare = 32;
/** A packet of ALAC may be a long silence. */
const alacFramesMax = 1 << 16;

function samplesOf(decoder: StreamDecoder, packet: Uint8Array, packets: number): number {
  const { samples } = decoder.push(packet);
  if (samples.length > Math.max(packet.length * 16, alacFramesMax)) throw new Error(`packet ${packets} has ${samples.length} samples`);
  return samples.length;
}

function waveOutcome(input: Uint8Array): string {
  const decoder = makeWavDecoder();
  const samples = decoder.push(input).samples.length + decoder.end().samples.length;
  if (samples > input.length * 16) throw new Error(`${input.length} bytes have ${samples} samples`);
  return `wav, ${Math.ceil(Math.log2(1 + samples))}`;
}

/** What a page says of itself is read only where its checksum is right, so here it always is. */
function oggOutcome(input: Uint8Array): string {
  const view = new DataView(input.buffer, input.byteOffset, input.byteLength);
  for (let at = 0; at + 27 <= input.length; at++) {
    if (view.getUint32(at) !== 0x4f676753) continue;
    const segments = input.subarray(at + 27, at + 27 + input[at + 26]!);
    const page = input.subarray(at, at + 27 + segments.length + segments.reduce((sum, length) => sum + length, 0));
    view.setUint32(at + 22, 0);
    view.setUint32(at + 22, oggChecksum(page), true);
  }
  const pages = makeOggReader().push(input);
  const packets = pages.flatMap((page) => page.packets);
  if (packets.reduce((sum, { length }) => sum + length, 0) > input.length) throw new Error("there is more in the pages than in the file");
  return `ogg, ${pages.length}, ${Math.ceil(Math.log2(1 + packets.length))}`;
}

function flacOutcome(input: Uint8Array): string {
  const decoder = makeFlacDecoder();
  const samples = decoder.push(input).samples.length + decoder.end().samples.length;
  // A frame of silence has thirteen bytes, and 65,536 samples at most.
  if (samples > (input.length / 10) * 65_536) throw new Error(`${input.length} bytes have ${samples} samples`);
  return `flac, ${Math.ceil(Math.log2(1 + samples))}`;
}

function ogg(): Uint8Array {
  const writer = makeOggWriter(7);
  const head = Buffer.from("4f707573486561640101380180bb0000000000", "hex");
  const packet = Uint8Array.of(0xf8, 0xff, 0xfe);
  return Buffer.concat([
    writer.page([head], 0),
    writer.page([packet, new Uint8Array(300), packet], 1920),
    writer.page([packet], 2880, true),
  ]);
}
