import { begin, closeStream, openStream, sendClosing, sendSteps, voice, wholeBody, wholeType } from "../chaos/answer.ts";
import type { Exchange } from "../chaos/exchange.ts";
import { numberFrom, stepsFrom, type Faults } from "./fault.ts";

/** The connection breaks, stalls or drips. */
export const connectionFaults: Faults = {
  silent: (exchange) => exchange.hold(),
  "close-before-headers": (exchange) => exchange.cut(),
  "rst-before-headers": (exchange) => exchange.reset(),

  /** Has all of the request, works on it for so long, and closes without a byte. */
  async "delivered-then-closed"(exchange, argument) {
    await exchange.pause(numberFrom(argument, 200));
    await exchange.cut();
  },
  async "rst-mid-headers"(exchange) {
    await exchange.send("HTTP/1.1 200 OK\r\nContent-Type: applic");
    await exchange.reset();
  },
  async "rst-mid-body"(exchange) {
    await sendHalf(exchange);
    await exchange.reset();
  },
  async "fin-mid-body"(exchange) {
    await sendHalf(exchange);
    await exchange.cut();
  },
  async "rst-before-content"(exchange) {
    await begin(exchange, 0);
    await exchange.reset();
  },
  async "rst-after"(exchange, argument) {
    await begin(exchange, stepsFrom(exchange, argument, 1));
    await exchange.reset();
  },
  async "fin-chunked-after"(exchange, argument) {
    exchange.manner.framing = "chunked";
    await begin(exchange, stepsFrom(exchange, argument, 1));
    await exchange.cut();
  },
  async "fin-close-delimited-after"(exchange, argument) {
    exchange.manner.framing = "close";
    await begin(exchange, stepsFrom(exchange, argument, 1));
    await exchange.cut();
  },
  /** The connection ends below TLS, without its alert. */
  async "tls-cut-after"(exchange, argument) {
    exchange.manner.framing = "close";
    await begin(exchange, stepsFrom(exchange, argument, 1));
    await exchange.cutBelow();
  },
  "close-delimited"(exchange) {
    exchange.manner.framing = "close";
  },

  /** Answers well, and closes the kept connection when the next request's first bytes arrive on it. */
  "close-on-reuse"(exchange, argument) {
    exchange.onReuse = argument === "rst" ? "reset" : "close";
  },

  /** Until the upstream's `release`: for an answer that is to come after something else, however long that takes. */
  async held(exchange) {
    await exchange.untilReleased();
  },
  /** In the middle, until the upstream's `release`; then the rest. */
  async "held-after"(exchange, argument) {
    const steps = stepsFrom(exchange, argument, 1);
    await begin(exchange, steps);
    await exchange.untilReleased();
    if (exchange.ask.stream) {
      await sendSteps(exchange, steps, voice(exchange).count);
      await closeStream(exchange);
    } else {
      const body = wholeBody(exchange);
      await exchange.sendBody(body.subarray(body.length >> 1));
      await exchange.complete();
    }
  },
  async delay(exchange, argument) {
    await exchange.pause(numberFrom(argument, 50));
  },
  pace(exchange, argument) {
    exchange.manner.paceMs = numberFrom(argument, 10);
  },
  tokens(exchange, argument) {
    exchange.manner.tokens = numberFrom(argument, 5);
  },
  "slow-headers"(exchange, argument) {
    exchange.manner.headByteMs = numberFrom(argument, 10);
  },
  /** `ms` or `ms,k`: the event of token k, the second by default, is dripped. */
  "slow-event"(exchange, argument) {
    const [byteMs = "", index = ""] = argument.split(",");
    exchange.manner.slowStep = { index: numberFrom(index, 1), byteMs: numberFrom(byteMs, 10) };
  },
  async "hang-after-headers"(exchange) {
    if (exchange.ask.stream) await openStream(exchange);
    else await exchange.open({ contentType: wholeType(exchange), length: wholeBody(exchange).length });
    await exchange.hold();
  },
  async "hang-after"(exchange, argument) {
    await begin(exchange, stepsFrom(exchange, argument, 1));
    await exchange.hold();
  },
  /** All of the answer but its end mark, on a connection that is then kept without a word. */
  async "hang-after-finish"(exchange) {
    exchange.manner.done = false;
    await begin(exchange, voice(exchange).count);
    if (exchange.ask.stream) await sendClosing(exchange);
    await exchange.hold();
  },
  /** Comments, every so many milliseconds, and never an event. */
  async "heartbeat-forever"(exchange, argument) {
    await openStream(exchange);
    await beat(exchange, numberFrom(argument, 20));
  },
  /** `k` or `k,ms` */
  async "heartbeat-after"(exchange, argument) {
    const [steps = "", everyMs = ""] = argument.split(",");
    await begin(exchange, stepsFrom(exchange, steps, 1));
    await beat(exchange, numberFrom(everyMs, 20));
  },

  /** Events as quickly as the peer takes them; endless, or closed well after so many bytes. Not in `tokensSent`. */
  async flood(exchange, argument) {
    const bytesMax = numberFrom(argument, Number.POSITIVE_INFINITY);
    const filler = "x".repeat(4_096);
    exchange.manner.words = (index) => `${exchange.attempt.id}:${index}${filler}`;
    await openStream(exchange);
    for (let index = 0; exchange.attempt.bytesSent < bytesMax; index += 1) {
      await sendSteps(exchange, index, index + 1);
      exchange.attempt.tokensSent.length = 0;
      exchange.attempt.audioSent.length = 0;
    }
    await closeStream(exchange);
  },
};

async function sendHalf(exchange: Exchange): Promise<void> {
  if (exchange.ask.stream) {
    await begin(exchange, Math.ceil(voice(exchange).count / 2));
    // The beginning of a chunk; what is in it would be heard, were it speech.
    await exchange.send(exchange.operation === "speech" ? "ff\r\n" : "ff\r\ndata: {");
  } else {
    await begin(exchange, 0);
  }
}

async function beat(exchange: Exchange, everyMs: number): Promise<never> {
  for (;;) {
    await exchange.sendBody(Buffer.from(": ping\n\n"));
    await exchange.pause(everyMs);
  }
}
