import { OpusDecoder } from "opus-decoder";
import { oggCodecAt } from "../../../../../src/media/containers/ogg-page.ts";
import { silenced } from "../silenced.ts";
import { UndecodableAudio, type PacketDecoder } from "../codec.ts";

/** More than the longest packet of one stream. */
const packetBytesMax = 3840;

/** At 48 kHz, whatever the packets were made from; libopus itself makes one channel of two. */
export async function makeOpusDecoder(): Promise<PacketDecoder> {
  const decoder = new OpusDecoder({ channels: 1 });
  await decoder.ready;
  let preSkip = 0;
  let gain = 1;
  let open = true;
  return {
    isHead: (packet) => oggCodecAt(packet, 0) === "opus",
    headers: 2,
    sampleRate: 48_000,
    get preSkip() {
      return preSkip;
    },
    begin([head = new Uint8Array(0)]) {
      if (head.length < 19) throw new UndecodableAudio("The Opus header is damaged.");
      if (head[18] !== 0) throw new UndecodableAudio("Opus with more than two channels is not supported.");
      const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
      preSkip = view.getUint16(10, true);
      gain = 10 ** (view.getInt16(16, true) / 256 / 20);
    },
    decode(packet) {
      if (packet.length === 0 || packet.length > packetBytesMax) return new Float32Array(0);
      const samples = silenced(() => decoder.decodeFrame(packet)).channelData[0] ?? new Float32Array(0);
      return gain === 1 ? samples : samples.map((sample) => sample * gain);
    },
    destroy() {
      if (open) decoder.free();
      open = false;
    },
  };
}
