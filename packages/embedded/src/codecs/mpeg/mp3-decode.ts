import { MPEGDecoder } from "mpg123-decoder";
import { makeId3Skipper } from "./id3.ts";
import { joinBytes, joinSamples } from "../bytes.ts";
import { findMpegFrame } from "./mpeg-frames.ts";
import { silenced } from "../silenced.ts";
import { makeResampler, type Resampler } from "../resample.ts";
import { UndecodableAudio, type DecodedAudio, type StreamDecoder } from "../codec.ts";

/**
 * The compiled mpg123 inside of the package. The package's own loop around it does not end on an error that stays, and speaks
 * to the console each time.
 */
interface Mpg123 {
  readonly _decoder: number;
  readonly _input: Buffered<Uint8Array>;
  readonly _output: Buffered<Float32Array>;
  readonly _samplesDecodedPtr: Buffered<Uint32Array>;
  readonly _sampleRatePtr: Buffered<Uint32Array>;
  readonly _errorStringPtr: Buffered<Uint32Array>;
  readonly _common: {
    readonly wasm: {
      mpeg_decoder_feed(decoder: number, input: number, bytes: number): number;
      mpeg_decoder_read(decoder: number, output: number, length: number, decoded: number, rate: number, error: number): number;
    };
  };
}

interface Buffered<T> {
  readonly ptr: number;
  readonly len: number;
  readonly buf: T;
}

const needMore = -10;
const newFormat = -11;
/** Frames are found again behind damage; but what has none for so long is no MP3. */
const strayBytesMax = 1 << 20;
const searchBytesMax = 1 << 16;

export async function makeMp3Decoder(): Promise<StreamDecoder> {
  const decoder = silenced(() => new MPEGDecoder());
  await decoder.ready;
  const library = decoder as unknown as Mpg123;
  const skipTag = makeId3Skipper();
  let sampleRate = 0;
  let stray = 0;
  let open = true;
  // Files are put together from others of another rate; the first rate stays.
  let other: { readonly sampleRate: number; readonly resampler: Resampler } | null = null;

  const steady = (samples: Float32Array, rate: number): Float32Array[] => {
    if (sampleRate === 0) sampleRate = rate;
    const given: Float32Array[] = [];
    if (other !== null && other.sampleRate !== rate) {
      given.push(other.resampler.end());
      other = null;
    }
    if (rate !== sampleRate) other ??= { sampleRate: rate, resampler: makeResampler(rate, sampleRate) };
    given.push(other === null ? samples : other.resampler.push(samples));
    return given;
  };

  const { _decoder: handle, _input: input, _output: output, _common: common } = library;
  const { _samplesDecodedPtr: counted, _sampleRatePtr: rated, _errorStringPtr: message } = library;

  const feed = (bytes: Uint8Array): Float32Array[] => {
    const { wasm } = common;
    const given: Float32Array[] = [];
    input.buf.set(bytes);
    stray += bytes.length;
    let code = wasm.mpeg_decoder_feed(handle, input.ptr, bytes.length);
    for (let failures = 0; code !== needMore && failures < bytes.length;) {
      counted.buf[0] = 0;
      code = wasm.mpeg_decoder_read(handle, output.ptr, output.len, counted.ptr, rated.ptr, message.ptr);
      const count = counted.buf[0];
      if (count > 0) {
        given.push(...steady(mixed(output.buf, count), rated.buf[0]!));
        stray = 0;
      } else if (code === 0) {
        break;
      }
      if (code !== 0 && code !== newFormat && code !== needMore) failures++;
    }
    if (stray > strayBytesMax) throw new UndecodableAudio("This is not an MP3 stream.");
    return given;
  };

  let searched: Uint8Array | null = new Uint8Array(0);
  /** Nothing goes to the library before a frame is found: it would make sounds of noise. */
  const fromFirstFrame = (bytes: Uint8Array, ended: boolean): Uint8Array => {
    if (searched === null) return bytes;
    searched = joinBytes([searched, bytes]);
    const start = findMpegFrame(searched, ended);
    if (start < 0) {
      if (searched.length > searchBytesMax) throw new UndecodableAudio("This is not an MP3 stream.");
      return new Uint8Array(0);
    }
    const found = searched.subarray(start);
    searched = null;
    return found;
  };

  const read = (bytes: Uint8Array, ended: boolean): DecodedAudio => {
    const rest = fromFirstFrame(skipTag(bytes), ended);
    const given: Float32Array[] = [];
    for (let at = 0; at < rest.length; at += sliceBytes) given.push(...silenced(() => feed(rest.subarray(at, at + sliceBytes))));
    return { samples: joinSamples(given), sampleRate };
  };

  return {
    push: (bytes) => read(bytes, false),
    end() {
      const { samples } = read(new Uint8Array(0), true);
      if (sampleRate === 0) throw new UndecodableAudio("There is no MP3 audio in it.");
      return { samples: joinSamples([samples, other?.resampler.end() ?? new Float32Array(0)]), sampleRate };
    },
    destroy() {
      if (open) decoder.free();
      open = false;
    },
  };
}

const sliceBytes = 4096;

/** The library gives two channels, also for mono. */
function mixed(output: Float32Array, count: number): Float32Array {
  const samples = new Float32Array(count);
  for (let index = 0; index < count; index++) samples[index] = (output[index]! + output[count + index]!) / 2;
  return samples;
}
