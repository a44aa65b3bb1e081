import { adtsHeader } from "./adts.ts";
import type { FixedRateEncoder } from "../codec.ts";
import { joinBytes } from "../bytes.ts";
import { silencedWithoutHandlers } from "../silenced.ts";

/** A stream of bare frames cannot tell a player of the encoder's delay; at this rate it is half as long as at 24 kHz. */
const sampleRate = 48_000;
const bitrate = 96_000;

/** The compiled encoder inside of the package, which the package itself would run in a worker that never answers here. */
interface Avcodec {
  readonly HEAPU8: Uint8Array;
  readonly _init_encoder: (channels: number, sampleRate: number, bitrate: number) => number;
  readonly _get_encoder_frame_size: (encoder: number) => number;
  readonly _get_encode_input_ptr: (encoder: number, bytes: number) => number;
  readonly _send_frame: (encoder: number, time: bigint) => number;
  readonly _receive_packet: (encoder: number) => number;
  readonly _get_encoded_data: (encoder: number) => number;
  readonly _flush_encoder_start: (encoder: number) => void;
  readonly _close_encoder: (encoder: number) => void;
}

/** The package names no way to this file; it lies beside its entry. */
const compiled = new URL("../modules/build/aac.js", import.meta.resolve("@mediabunny/aac-encoder")).href;
let loading: Promise<Avcodec> | null = null;

export async function makeAacEncoder(): Promise<FixedRateEncoder> {
  loading ??= load().catch((error: unknown) => {
    loading = null;
    throw error;
  });
  const library = await loading;
  const { _init_encoder: initEncoder, _close_encoder: closeEncoder, _get_encoder_frame_size: frameSizeOf } = library;
  const { _get_encode_input_ptr: inputOf, _send_frame: sendFrame, _flush_encoder_start: startFlush } = library;
  const { _receive_packet: receivePacket, _get_encoded_data: dataOf } = library;
  const encoder = initEncoder(1, sampleRate, bitrate);
  if (encoder === 0) throw new Error("aac encoder could not be made");
  const frame = frameSizeOf(encoder);
  const input = inputOf(encoder, frame * 4);
  if (input === 0) throw new Error("aac encoder has no memory");

  const held = new Float32Array(frame);
  let holding = 0;
  let taken = 0;
  let encoded = 0;
  let open = true;

  const packets = (): Uint8Array[] => {
    const found: Uint8Array[] = [];
    for (;;) {
      const length = receivePacket(encoder);
      if (length < 0) throw new Error(`aac encoder failed (${length})`);
      if (length === 0) return found;
      const data = dataOf(encoder);
      found.push(adtsHeader({ objectType: 2, sampleRate, channels: 1 }, length), library.HEAPU8.slice(data, data + length));
    }
  };

  const encodeFrame = (): Uint8Array[] => {
    held.fill(0, holding);
    library.HEAPU8.set(new Uint8Array(held.buffer), input);
    const code = sendFrame(encoder, BigInt(encoded));
    if (code < 0) throw new Error(`aac encoder failed (${code})`);
    encoded += frame;
    holding = 0;
    return packets();
  };

  const close = (): void => {
    if (open) closeEncoder(encoder);
    open = false;
  };

  return {
    sampleRate,
    push(samples) {
      const pieces: Uint8Array[] = [];
      taken += samples.length;
      for (let at = 0; at < samples.length;) {
        const count = Math.min(frame - holding, samples.length - at);
        for (let index = 0; index < count; index++) {
          const sample = samples[at + index]!;
          // The encoder refuses what is no number, and with it the whole frame.
          held[holding + index] = sample > 1 ? 1 : sample < -1 ? -1 : sample || 0;
        }
        holding += count;
        at += count;
        if (holding === frame) pieces.push(...encodeFrame());
      }
      return joinBytes(pieces);
    },
    end() {
      const pieces = encoded < taken || taken === 0 ? encodeFrame() : [];
      startFlush(encoder);
      pieces.push(...packets());
      close();
      return joinBytes(pieces);
    },
    destroy: close,
  };
}

async function load(): Promise<Avcodec> {
  const { default: make } = (await import(compiled)) as { readonly default: () => Promise<Avcodec> };
  return silencedWithoutHandlers(make);
}
