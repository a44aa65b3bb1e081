import type { FixedRateEncoder } from "../codec.ts";
import { joinBytes } from "../bytes.ts";
import { makeOggWriter } from "./ogg-write.ts";
import { toInteger } from "../pcm.ts";
import { silencedWithoutHandlers } from "../silenced.ts";

/** The rates that libopus takes. */
const rates: readonly number[] = [8000, 12_000, 16_000, 24_000, 48_000];
const bitrate = 48_000;
/** Of 20 ms. */
const packetsInPage = 5;
/** What libopus holds back: 6.5 ms, in Ogg's unit of 1/48000 s whatever the rate. */
const preSkip = 312;
const audioApplication = 2049;
const setBitrate = 4002;
const packetBytesMax = 4000;

/** The compiled library as it is; the package's own wrapper around it writes outside of the memory that it was given. */
interface Libopus {
  readonly OpusScriptHandler: {
    new (sampleRate: number, channels: number, application: number): OpusHandler;
    destroy_handler(handler: OpusHandler): void;
  };
  readonly HEAPU8: Uint8Array;
  readonly HEAPU16: Uint16Array;
  readonly _malloc: (bytes: number) => number;
  readonly _free: (pointer: number) => void;
}

interface OpusHandler {
  _encode(input: number, inputBytes: number, output: number, frameSamples: number): number;
  _encoder_ctl(request: number, value: number): number;
}

const compiled = import.meta.resolve("opusscript/build/opusscript_native_wasm.js");
let loading: Promise<Libopus> | null = null;

/** Opus in Ogg, in pages of 100 ms so that it can be heard while it is made. */
export async function makeOpusEncoder(givenRate: number): Promise<FixedRateEncoder> {
  loading ??= load().catch((error: unknown) => {
    loading = null;
    throw error;
  });
  const library = await loading;
  const { _malloc: allocate, _free: release } = library;
  const sampleRate = rates.find((rate) => rate >= givenRate) ?? 48_000;
  const unit = 48_000 / sampleRate;
  const frame = sampleRate / 50;
  const handler = new library.OpusScriptHandler(sampleRate, 1, audioApplication);
  handler["_encoder_ctl"](setBitrate, bitrate);
  // The library takes each byte of a sample in a word of its own.
  const input = allocate(frame * 4);
  const output = allocate(packetBytesMax);
  if (input === 0 || output === 0) throw new Error("opus encoder has no memory");
  const ogg = makeOggWriter(Math.floor(Math.random() * 2 ** 32));

  const held = new Float32Array(frame);
  let holding = 0;
  let taken = 0;
  let encoded = 0;
  let begun = false;
  let open = true;
  let packets: Uint8Array[] = [];
  let pages: Uint8Array[] = [];

  const begin = (): void => {
    if (begun) return;
    begun = true;
    pages.push(ogg.page([head(givenRate)], 0), ogg.page([tags()], 0));
  };

  const encodeFrame = (): void => {
    const words = library.HEAPU16;
    for (let index = 0; index < frame; index++) {
      const sample = toInteger(held[index]!);
      words[(input >> 1) + index * 2] = sample & 0xff;
      words[(input >> 1) + index * 2 + 1] = (sample >> 8) & 0xff;
    }
    const length = handler["_encode"](input, frame * 2, output, frame);
    if (length <= 0) throw new Error(`opus encoder failed (${length})`);
    packets.push(library.HEAPU8.slice(output, output + length));
    holding = 0;
    encoded += frame;
  };

  const flushPage = (granule: number, end: boolean): void => {
    pages.push(ogg.page(packets, granule, end));
    packets = [];
  };

  const given = (): Uint8Array => {
    const bytes = joinBytes(pages);
    pages = [];
    return bytes;
  };

  const close = (): void => {
    if (!open) return;
    open = false;
    library.OpusScriptHandler.destroy_handler(handler);
    release(input);
    release(output);
  };

  return {
    sampleRate,
    push(samples) {
      begin();
      taken += samples.length;
      for (let at = 0; at < samples.length;) {
        const count = Math.min(frame - holding, samples.length - at);
        held.set(samples.subarray(at, at + count), holding);
        holding += count;
        at += count;
        if (holding < frame) break;
        encodeFrame();
        // The first page goes out with one packet: who listens shall not wait for a full one.
        if (packets.length === packetsInPage || encoded === frame) flushPage(encoded * unit, false);
      }
      return given();
    },
    end() {
      begin();
      // What the encoder holds back comes out behind silence; the last position tells how much of that to cut off.
      const needed = taken + preSkip / unit;
      while (encoded < needed) {
        held.fill(0, holding);
        encodeFrame();
        if (packets.length === packetsInPage && encoded < needed) flushPage(encoded * unit, false);
      }
      flushPage(preSkip + Math.round(taken * unit), true);
      close();
      return given();
    },
    destroy: close,
  };
}

async function load(): Promise<Libopus> {
  const { default: make } = (await import(compiled)) as {
    readonly default: () => Libopus & { readonly ready: Promise<unknown> };
  };
  const library = silencedWithoutHandlers(make);
  await library.ready;
  return library;
}

function head(givenRate: number): Uint8Array {
  const bytes = new Uint8Array(19);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode("OpusHead"));
  bytes[8] = 1;
  bytes[9] = 1;
  view.setUint16(10, preSkip, true);
  view.setUint32(12, givenRate, true);
  return bytes;
}

function tags(): Uint8Array {
  const vendor = new TextEncoder().encode("libopus");
  const bytes = new Uint8Array(8 + 4 + vendor.length + 4);
  bytes.set(new TextEncoder().encode("OpusTags"));
  new DataView(bytes.buffer).setUint32(8, vendor.length, true);
  bytes.set(vendor, 12);
  return bytes;
}
