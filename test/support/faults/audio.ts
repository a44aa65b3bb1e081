import { audioFormats, audioTypes } from "../../../src/media/audio.ts";
import type { Exchange } from "../chaos/exchange.ts";
import { audioOf, formatOf, stepBytes } from "../chaos/spoken.ts";
import { prepareTakes } from "../chaos/take.ts";
import { numberFrom, type Faults } from "./fault.ts";

/** What can be wrong with a recording, and with a transcript of one. */
export const audioFaults: Faults = {
  /** Speech of this format, WAV by default, whatever is asked for. */
  async "audio-format"(exchange, argument) {
    const format = audioFormats.find((each) => each === argument) ?? "wav";
    await prepareTakes(format);
    exchange.manner.audioFormat = format;
  },
  /** So many bytes that are no audio at all, under the type of the format that was asked for. */
  async "audio-garbage"(exchange, argument) {
    const bytes = Uint8Array.from({ length: numberFrom(argument, 8_192) }, (_, index) => ((index * 167 + 13) & 127) | 128);
    await exchange.reply({ contentType: audioType(exchange), body: bytes });
  },
  /** A sentence under that type. */
  async "audio-text"(exchange) {
    await exchange.reply({ contentType: audioType(exchange), body: "upstream connect error or disconnect before headers\n" });
  },
  /** An error under that type. */
  async "audio-error"(exchange) {
    const body = JSON.stringify({ error: { message: "The server had an error.", type: "server_error", param: null, code: null } });
    await exchange.reply({ contentType: audioType(exchange), body });
  },
  /** So many kilobytes of it, and in proper HTTP: whoever made it was cut off. */
  async "audio-cut"(exchange, argument) {
    await prepareTakes(formatOf(exchange));
    const audio = audioOf(formatOf(exchange), exchange.attempt.id, null);
    await exchange.reply({ contentType: audioType(exchange), body: audio.subarray(0, numberFrom(argument, 8) * stepBytes) });
  },
  "audio-empty": (exchange) => exchange.reply({ contentType: audioType(exchange), body: "" }),
  /** Bytes for a client that wants events, and events for one that does not. */
  "audio-as-bytes"(exchange) {
    exchange.manner.events = false;
  },
  "audio-as-events"(exchange) {
    exchange.manner.events = true;
  },

  /** A transcript of this format, whatever is asked for. */
  "transcript-format"(exchange, argument) {
    exchange.manner.transcriptFormat = argument;
  },
  /** Plain JSON where `srt` or `vtt` is asked for. */
  "no-subtitles"(exchange) {
    exchange.manner.subtitles = false;
  },
  /** Without times, even where it should have them. */
  "no-times"(exchange) {
    exchange.manner.times = false;
  },
};

function audioType(exchange: Exchange): string {
  return exchange.operation === "speech" ? audioTypes[formatOf(exchange)] : "audio/mpeg";
}
