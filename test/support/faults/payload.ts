import {
  answerInStream,
  answerWhole,
  jsonType,
  openStream,
  sendEvent,
  sendRoles,
  sendSteps,
  streamTypeOf,
  wholeBody,
  wholeType,
} from "../chaos/answer.ts";
import type { Exchange } from "../chaos/exchange.ts";
import { numberFrom, stepsFrom, type Faults } from "./fault.ts";

/** A good status over content that is an error, of the wrong kind, or does not add up. */
export const payloadFaults: Faults = {
  async "error-in-200"(exchange, argument) {
    const code = numberFrom(argument, 502);
    const body = { error: { message: "The provider returned an error.", code } };
    await exchange.reply({ contentType: jsonType, body: JSON.stringify(body) });
  },
  async "html-200"(exchange) {
    await exchange.reply({ contentType: "text/html", body: "<html><body>Hello</body></html>" });
  },
  "empty-200": (exchange) => exchange.reply({ contentType: jsonType, body: "" }),
  "null-200": (exchange) => exchange.reply({ contentType: jsonType, body: "null" }),
  "204": (exchange) => exchange.reply({ status: 204, contentType: null, body: "" }),
  /** A body that stops in the middle, under a content-length that is true. */
  async "invalid-json"(exchange) {
    const body = wholeBody(exchange);
    const contentType = exchange.ask.stream ? streamTypeOf(exchange) : wholeType(exchange);
    await exchange.reply({ contentType, body: body.subarray(0, body.length >> 1) });
  },
  "empty-choices": (exchange) => exchange.reply({ contentType: jsonType, body: '{"object":"chat.completion","choices":[]}' }),
  "no-choices": (exchange) => exchange.reply({ contentType: jsonType, body: '{"object":"chat.completion"}' }),
  /** Blank space before the JSON, as sent by those who keep a waiting connection warm. */
  padded(exchange) {
    const { bytesOf } = exchange.manner;
    if (exchange.ask.stream) return;
    exchange.manner.bytesOf = (text) => bytesOf(`${"\n         ".repeat(20)}${text}`);
  },
  /** `times,ms`: so many bits of blank space, each after a while, and then the JSON. */
  async "padded-wait"(exchange, argument) {
    if (exchange.ask.stream) return;
    const [times = "", everyMs = ""] = argument.split(",");
    await exchange.open({ contentType: jsonType });
    for (let left = numberFrom(times, 10); left > 0; left -= 1) {
      await exchange.sendBody(Buffer.from("\n         "));
      await exchange.pause(numberFrom(everyMs, 50));
    }
    await exchange.sendBody(wholeBody(exchange));
    await exchange.complete();
  },

  /** The type of the error. */
  async "sse-error-first"(exchange, argument) {
    await openStream(exchange);
    await sendEvent(exchange, errorPayload(argument === "" ? "server_error" : argument));
    await exchange.complete();
  },
  /** `k` or `k,type` */
  async "sse-error-after"(exchange, argument) {
    const [steps = "", type = "server_error"] = argument.split(",");
    await beginStreaming(exchange, steps || "1");
    await sendEvent(exchange, errorPayload(type));
    await exchange.complete();
  },
  /** `k` or `k,type`: named by an `event: error` line. */
  async "error-event-named"(exchange, argument) {
    const [steps = "", type = "overloaded_error"] = argument.split(",");
    await beginStreaming(exchange, steps);
    exchange.manner.linesBefore.push("event: error");
    await sendEvent(exchange, errorPayload(type));
    await exchange.complete();
  },
  /** `k`: named so, and without an `error` key in its data. */
  async "error-event-flat"(exchange, argument) {
    await beginStreaming(exchange, argument);
    exchange.manner.linesBefore.push("event: error");
    await sendEvent(exchange, JSON.stringify({ message: "Overloaded.", type: "overloaded_error" }));
    await exchange.complete();
  },

  "sse-for-json": answerInStream,
  "json-for-sse": answerWhole,
  /** Any value; `none` leaves the header out. */
  "content-type"(exchange, argument) {
    exchange.manner.contentType = argument === "none" ? null : argument || "text/plain";
  },

  /** Every byte in another encoding than JSON may have. */
  "utf-16"(exchange) {
    const type = exchange.ask.stream ? "text/event-stream" : jsonType;
    exchange.manner.contentType = `${type}; charset=utf-16`;
    exchange.manner.bytesOf = (text) => Buffer.from(text, "utf16le");
  },

  /** JSON text in place of every number of usage, such as `-1`, `1e12`, `NaN`, `null`; `string` is a word. */
  "absurd-usage"(exchange, argument) {
    exchange.manner.usageNumber = argument === "string" ? '"many"' : argument || "-1";
  },
  "usage-missing"(exchange) {
    exchange.manner.usage = "missing";
  },
  "usage-on-finish-chunk"(exchange) {
    exchange.manner.usage = "on-finish";
  },
  /** A first, smaller one on the finish chunk, then the true one. */
  "usage-twice"(exchange) {
    exchange.manner.usage = "twice";
  },
};

async function beginStreaming(exchange: Exchange, steps: string): Promise<void> {
  const count = stepsFrom(exchange, steps);
  await openStream(exchange);
  if (count > 0) await sendRoles(exchange);
  await sendSteps(exchange, 0, count);
}

function errorPayload(type: string): string {
  const message = "The server had an error while processing your request.";
  return JSON.stringify({ error: { message, type, param: null, code: null } });
}
