import { begin, streamTypeOf, wholeBody, wholeType } from "../chaos/answer.ts";
import type { Exchange } from "../chaos/exchange.ts";
import { numberFrom, stepsFrom, type Faults } from "./fault.ts";

/** HTTP itself is wrong or strange: lengths, chunks, heads, codings, or no HTTP at all. */
export const framingFaults: Faults = {
  async "length-too-long"(exchange, argument) {
    exchange.manner.lengthSkew = numberFrom(argument, 100);
    await answerWithLength(exchange);
  },
  /** A whole answer, and behind it another that nobody asked for; its text begins with `poison`. */
  async "length-too-short"(exchange, argument) {
    exchange.manner.postscript = argument === "garbage" ? "\x00garbage\r\n\r\n" : poison(exchange);
    await answerWithLength(exchange);
  },
  /** What streams elsewhere comes with its length, as what is complete beforehand does. */
  declared(exchange) {
    exchange.manner.declared = true;
  },
  /** Adds to the length that is told. */
  "length-skew"(exchange, argument) {
    exchange.manner.lengthSkew = numberFrom(argument, 100);
  },
  "cl-and-te"(exchange) {
    exchange.manner.framing = "chunked";
    exchange.manner.headers.push(["Content-Length", "10"]);
  },
  async "bad-chunk-size"(exchange, argument) {
    await breakChunk(exchange, argument, "zz");
  },
  async "chunk-size-overflow"(exchange, argument) {
    await breakChunk(exchange, argument, "fffffffffffffffff");
  },
  "huge-chunk-extension"(exchange, argument) {
    exchange.manner.framing = "chunked";
    exchange.manner.firstChunkExtensionBytes = numberFrom(argument, 10 * 1024 * 1024);
  },

  async garbage(exchange) {
    await exchange.send(Uint8Array.from({ length: 4_096 }, (_, index) => (index * 167 + 13) & 255));
    await exchange.cut();
  },
  async http09(exchange) {
    await exchange.send(wholeBody(exchange));
    await exchange.cut();
  },
  async "h2-preface"(exchange) {
    await exchange.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    await exchange.cut();
  },
  /** A handshake failure alert on a plain connection. */
  async "tls-bytes"(exchange) {
    await exchange.send("\x15\x03\x03\x00\x02\x02\x28");
    await exchange.cut();
  },

  /** So many bytes in one header, or `endless`. */
  async "huge-headers"(exchange, argument) {
    if (argument === "endless") return sendHeadersForever(exchange);
    exchange.manner.headers.push(["X-Padding", "x".repeat(numberFrom(argument, 64 * 1024))]);
  },
  "many-headers"(exchange, argument) {
    for (let index = 0; index < numberFrom(argument, 10_000); index += 1) {
      exchange.manner.headers.push([`X-Padding-${index}`, "x"]);
    }
  },
  "interim-100": (exchange) => void exchange.manner.interims.push(100),
  "interim-102": (exchange) => void exchange.manner.interims.push(102),
  "interim-103": (exchange) => void exchange.manner.interims.push(103),
  async "unsolicited-101"(exchange) {
    await exchange.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    await exchange.hold();
  },

  gzip: (exchange) => void exchange.manner.codings.push("gzip"),
  "gzip-sse": (exchange) => void exchange.manner.codings.push("gzip"),
  deflate: (exchange) => void exchange.manner.codings.push("deflate"),
  br: (exchange) => void exchange.manner.codings.push("br"),
  "stacked-encoding"(exchange, argument) {
    const depth = numberFrom(argument, 6);
    for (let index = 0; index < depth; index += 1) exchange.manner.codings.push("gzip");
  },
  "unknown-encoding"(exchange, argument) {
    exchange.manner.codings.push("scramble");
    exchange.manner.codingLabel = argument === "" ? "x-unknown" : argument;
  },
  "false-gzip"(exchange) {
    exchange.manner.codingLabel = "gzip";
  },
  /** So many bytes of text that compress to next to nothing. */
  "gzip-bomb"(exchange, argument) {
    const filler = "x".repeat(numberFrom(argument, 32 * 1024 * 1024));
    exchange.manner.codings.push("gzip");
    exchange.manner.tokens = 1;
    exchange.manner.words = () => filler;
  },
};

async function answerWithLength(exchange: Exchange): Promise<void> {
  const contentType = exchange.ask.stream ? streamTypeOf(exchange) : wholeType(exchange);
  exchange.manner.framing = "length";
  await exchange.reply({ contentType, body: wholeBody(exchange) });
}

async function breakChunk(exchange: Exchange, argument: string, size: string): Promise<void> {
  exchange.manner.framing = "chunked";
  await begin(exchange, stepsFrom(exchange, argument));
  await exchange.send(`${size}\r\ndata: {}\n\n\r\n0\r\n\r\n`);
  await exchange.hold();
}

async function sendHeadersForever(exchange: Exchange): Promise<never> {
  const lines = `X-Padding: ${"x".repeat(1_000)}\r\n`.repeat(16);
  await exchange.send("HTTP/1.1 200 OK\r\n");
  for (;;) await exchange.send(lines);
}

function poison(exchange: Exchange): string {
  const message = { role: "assistant", content: `poison of ${exchange.attempt.id}`, refusal: null };
  const body = JSON.stringify({
    id: "chatcmpl-poison",
    object: "chat.completion",
    created: 0,
    model: exchange.ask.model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;
}
