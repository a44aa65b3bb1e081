import { OggVorbisDecoder } from "@wasm-audio-decoders/ogg-vorbis";
import { hasTextAt } from "../../../../../src/media/containers/bytes.ts";
import { oggCodecAt } from "../../../../../src/media/containers/ogg-page.ts";
import { silenced } from "../silenced.ts";
import { sampleRateMax, sampleRateMin } from "../resample.ts";
import { UndecodableAudio, type PacketDecoder } from "../codec.ts";

/** The compiled decoder inside of the package, which itself reads whole Ogg files with a reader of its own. */
interface Libvorbis {
  sendSetupHeader(header: Uint8Array): void;
  initDsp(): void;
  decodePackets(packets: readonly Uint8Array[]): { readonly channelData: readonly Float32Array[] };
}

const channelsMax = 8;
const packetBytesMax = 128 * 1024;

export async function makeVorbisDecoder(): Promise<PacketDecoder> {
  const decoder = new OggVorbisDecoder();
  await decoder.ready;
  const { _decoder: library } = decoder as unknown as { readonly _decoder: Libvorbis };
  let sampleRate = 0;
  let open = true;
  const guarded = <T>(run: () => T): T => {
    try {
      return silenced(run);
    } catch (error) {
      throw new UndecodableAudio("The Vorbis audio is damaged.", { cause: error });
    }
  };
  return {
    // The compiled decoder can begin once only; what is chained behind is passed over.
    isHead: (packet) => sampleRate === 0 && oggCodecAt(packet, 0) === "vorbis",
    headers: 3,
    preSkip: 0,
    get sampleRate() {
      return sampleRate;
    },
    begin([identification = new Uint8Array(0), , setup = new Uint8Array(0)]) {
      sampleRate = rateOf(identification);
      if (setup.length > packetBytesMax || setup[0] !== 5 || !hasTextAt(setup, 1, "vorbis")) throw damaged();
      guarded(() => {
        library.sendSetupHeader(identification);
        library.sendSetupHeader(setup);
        library.initDsp();
      });
    },
    decode(packet) {
      // An odd first bit marks a header; those may come again.
      if (packet.length === 0 || packet.length > packetBytesMax || (packet[0]! & 1) !== 0) return new Float32Array(0);
      return guarded(() => mixDown(library.decodePackets([packet]).channelData));
    },
    destroy() {
      if (open) decoder.free();
      open = false;
    },
  };
}

function rateOf(identification: Uint8Array): number {
  if (identification.length < 30 || !hasTextAt(identification, 1, "vorbis")) throw damaged();
  const view = new DataView(identification.buffer, identification.byteOffset, identification.byteLength);
  const channels = identification[11]!;
  const sampleRate = view.getUint32(12, true);
  if (channels < 1 || channels > channelsMax || sampleRate < sampleRateMin || sampleRate > sampleRateMax) throw damaged();
  return sampleRate;
}

/** One channel from several, as loud as they are on average. */
function mixDown(channels: readonly Float32Array[]): Float32Array {
  const mixed = new Float32Array(channels[0]?.length ?? 0);
  for (const channel of channels) for (let index = 0; index < mixed.length; index++) mixed[index]! += channel[index]! / channels.length;
  return mixed;
}

function damaged(): UndecodableAudio {
  return new UndecodableAudio("The Vorbis header is damaged, or it has a rate or channels that are not supported.");
}
