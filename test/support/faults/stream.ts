import { openStream, sendEvent, sendReasoning, sendRoles, sendSteps } from "../chaos/answer.ts";
import type { Exchange } from "../chaos/exchange.ts";
import { ownWords, sameWords } from "../chaos/manner.ts";
import { numberFrom, stepsFrom, type Faults } from "./fault.ts";

/** The transport is sound and the events are not, or are merely unusual. */
export const streamFaults: Faults = {
  "no-done"(exchange) {
    exchange.manner.done = false;
  },
  "done-without-finish"(exchange) {
    exchange.manner.finishReason = null;
  },
  async "done-only"(exchange) {
    await openStream(exchange);
    await sendEvent(exchange, "[DONE]");
    await exchange.complete();
  },
  async "empty-stream"(exchange) {
    await openStream(exchange);
    await exchange.complete();
  },
  async "role-then-end"(exchange) {
    await openStream(exchange);
    await sendRoles(exchange);
    await exchange.complete();
  },
  /** `k` or `k,r`: tokens, with so many deltas of reasoning before them, then a clean end of the body with neither finish nor `[DONE]`. */
  async "end-after"(exchange, argument) {
    const [steps = "", thoughts = ""] = argument.split(",");
    await openStream(exchange);
    await sendRoles(exchange);
    await sendThoughts(exchange, numberFrom(thoughts, 0));
    await sendSteps(exchange, 0, stepsFrom(exchange, steps, 1));
    await exchange.complete();
  },
  /** Two line breaks, and then a clean end of the body. */
  async "blank-then-end"(exchange) {
    exchange.manner.words = () => "\n\n";
    await openStream(exchange);
    await sendRoles(exchange);
    await sendSteps(exchange, 0, 1);
    await exchange.complete();
  },
  /** So many deltas, then `[DONE]` as if that were all: of a tool call, its arguments are cut in the middle. */
  async "cut-with-done"(exchange, argument) {
    await openStream(exchange);
    await sendRoles(exchange);
    await sendSteps(exchange, 0, stepsFrom(exchange, argument, 1));
    await sendEvent(exchange, "[DONE]");
    await exchange.complete();
  },
  /** So many deltas of reasoning, and then what the argument after the comma says: `end`, or `done` for an end mark. */
  async "reasoning-only"(exchange, argument) {
    const [steps = "", how = "end"] = argument.split(",");
    await openStream(exchange);
    await sendRoles(exchange);
    await sendThoughts(exchange, numberFrom(steps, 2));
    if (how === "done") await sendEvent(exchange, "[DONE]");
    await exchange.complete();
  },
  finish(exchange, argument) {
    exchange.manner.finishReason = argument === "" ? "length" : argument;
  },
  "finish-error"(exchange) {
    exchange.manner.finishReason = "error";
    exchange.manner.tokens = 0;
  },

  crlf(exchange) {
    exchange.manner.endOfLine = "\r\n";
  },
  cr(exchange) {
    exchange.manner.endOfLine = "\r";
  },
  bom(exchange) {
    exchange.manner.byteOrderMark = true;
  },
  "no-space"(exchange) {
    exchange.manner.dataPrefix = "data:";
  },
  "multi-line-data"(exchange) {
    exchange.manner.splitsData = true;
  },
  comments: (exchange) => void exchange.manner.linesBefore.push(": PROCESSING", ""),
  "event-id-retry-fields": (exchange) => void exchange.manner.linesBefore.push("event: message", "id: 1", "retry: 10"),
  "no-final-blank-line"(exchange) {
    exchange.manner.finalBlankLine = false;
  },
  "one-packet"(exchange) {
    exchange.manner.packet = "whole";
  },
  "byte-by-byte"(exchange) {
    exchange.manner.packet = "byte";
  },
  /** One event of broken JSON before token k; the others are sound. */
  "malformed-event"(exchange, argument) {
    const payload = '{"choices":[{"index":0,"delta":{"content":"broken';
    exchange.manner.interjection = { index: stepsFrom(exchange, argument, 1), payload };
  },

  /** One event of so many bytes of text, then a healthy end. */
  "big-event"(exchange, argument) {
    const filler = "x".repeat(numberFrom(argument, 7 * 1024 * 1024));
    exchange.manner.tokens = 1;
    exchange.manner.words = () => `${exchange.attempt.id}:0${filler}`;
  },
  /** `k`: after so many sound tokens, a line that never ends. */
  async "endless-line"(exchange, argument) {
    await openStream(exchange);
    await sendRoles(exchange);
    await sendSteps(exchange, 0, stepsFrom(exchange, argument));
    await exchange.sendBody(Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"'));
    const filler = Buffer.alloc(64 * 1024, "x");
    for (;;) await exchange.sendBody(filler);
  },

  /** A byte that is no UTF-8 inside the text; the ledger has U+FFFD in its place. */
  "invalid-utf8"(exchange) {
    saySecond(exchange, " \uFFFD");
    exchange.manner.bytesOf = (text) => Buffer.from(Buffer.from(text).toString("latin1").replaceAll("\xEF\xBF\xBD", "\xFF"), "latin1");
  },
  "lone-surrogate": (exchange) => saySecond(exchange, " \uD83D"),
  nul: (exchange) => saySecond(exchange, " \0"),
  u2028: (exchange) => saySecond(exchange, " \u2028\u2029\u0085"),
  "multi-byte": (exchange) => saySecond(exchange, " é漢🚰👩‍🔧"),

  "same-text"(exchange) {
    exchange.manner.words = sameWords;
  },
  "different-text"(exchange) {
    exchange.manner.words = ownWords(exchange.instance);
  },
  /** `n` or `n,blank`: asked to go on with an answer, it repeats so many of its characters first, with that for every white space. */
  "repeat-continue"(exchange, argument) {
    const [characters = "", blank = " "] = argument.split(",");
    exchange.manner.repeats = { characters: numberFrom(characters, 40), blank };
  },
  /** Continues a last message of the assistant's, saying so many of its characters again first. */
  "prefix-continue"(exchange, argument) {
    exchange.manner.continueWithOverlap = numberFrom(argument, 0);
  },
};

async function sendThoughts(exchange: Exchange, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await exchange.pause(index === 0 ? exchange.manner.firstMs : exchange.manner.paceMs);
    await sendReasoning(exchange, ` thought${index}`);
  }
}

function saySecond(exchange: Exchange, text: string): void {
  const { words } = exchange.manner;
  exchange.manner.words = (index, choice) => (index === 1 ? text : words(index, choice));
}
