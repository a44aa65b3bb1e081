import {
  ALL_FORMATS,
  BufferSource,
  BufferTarget,
  EncodedAudioPacketSource,
  EncodedPacketSink,
  Input,
  Output,
  type OutputFormat,
} from "mediabunny";
import { createOggEncoder } from "wasm-media-encoders";
import { makeEncoder } from "../../packages/embedded/src/codecs/encode.ts";
import type { AudioFormat } from "../../src/media/audio.ts";

/** The same sound in each format. A codec works when it is first asked for and never again, however many files are made of its bytes. */
export function filesOf(samples: Float32Array, sampleRate: number): (format: AudioFormat) => Promise<Uint8Array<ArrayBuffer>> {
  const made = new Map<AudioFormat, Promise<Buffer>>();
  const make = async (format: AudioFormat): Promise<Buffer> => {
    const encoder = await makeEncoder(format, { sampleRate });
    return Buffer.concat([encoder.push(samples).slice(), encoder.end().slice()]);
  };
  return async (format) => {
    const bytes = made.get(format) ?? make(format);
    made.set(format, bytes);
    return Uint8Array.from(await bytes);
  };
}

/** The same packets in another container. */
export async function remux(bytes: Uint8Array, format: OutputFormat): Promise<Uint8Array> {
  const input = new Input({ formats: ALL_FORMATS, source: new BufferSource(bytes) });
  const track = (await input.getPrimaryAudioTrack())!;
  const codec = (await track.getCodec())!;
  const decoderConfig = (await track.getDecoderConfig())!;
  const target = new BufferTarget();
  const output = new Output({ format, target });
  const source = new EncodedAudioPacketSource(codec);
  output.addAudioTrack(source);
  await output.start();
  for await (const packet of new EncodedPacketSink(track).packets()) await source.add(packet, { decoderConfig });
  await output.finalize();
  input.dispose();
  return new Uint8Array(target.buffer!);
}

/** Ogg with Vorbis, which we read and do not write. */
export async function vorbisOf(samples: Float32Array, sampleRate: number): Promise<Uint8Array> {
  const encoder = await createOggEncoder();
  encoder.configure({ channels: 1, sampleRate, vbrQuality: 5 });
  return Uint8Array.from(Buffer.concat([encoder.encode([samples]).slice(), encoder.finalize().slice()]));
}

/** An ID3 tag with a picture, which is full of what looks like the beginning of a frame. */
export function id3Tag(length: number): Uint8Array {
  const size = [21, 14, 7, 0].map((shift) => (length >> shift) & 127);
  return Uint8Array.from([0x49, 0x44, 0x33, 4, 0, 0, ...size, ...Array.from({ length }, (_, index) => (index % 3 === 0 ? 0xff : 0xfb))]);
}
