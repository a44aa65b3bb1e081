import type { Exchange } from "./exchange.ts";
import { eventText } from "./event.ts";
import { chunk, completion, usageOf } from "./completion.ts";
import type { Performance } from "./performance.ts";
import { spoken } from "./spoken.ts";
import { transcribed } from "./transcribed.ts";
import { voiceOf, type Voice } from "./voice.ts";

/** The healthy answer, in the manner of the exchange. */
export async function answer(exchange: Exchange): Promise<void> {
  const { ask } = exchange;
  if (ask.raw !== null && ask.stream) {
    await openStream(exchange);
    await exchange.sendBody(Buffer.from(ask.raw));
    return exchange.complete();
  }
  if (ask.raw !== null) return exchange.reply({ contentType: jsonType, body: ask.raw });
  return ask.stream ? answerInStream(exchange) : answerWhole(exchange);
}

export async function answerWhole(exchange: Exchange): Promise<void> {
  await exchange.pause(exchange.manner.firstMs);
  await exchange.reply({ contentType: wholeType(exchange), body: wholeCompletion(exchange) });
}

export async function answerInStream(exchange: Exchange): Promise<void> {
  await openStream(exchange);
  await sendRoles(exchange);
  await sendSteps(exchange, 0, voice(exchange).count);
  await closeStream(exchange);
}

/** The answer up to its k-th token; one that is not streamed, up to its middle. */
export async function begin(exchange: Exchange, steps: number): Promise<void> {
  if (exchange.ask.stream) {
    await openStream(exchange);
    await sendRoles(exchange);
    await sendSteps(exchange, 0, steps);
  } else {
    const body = wholeBody(exchange);
    await exchange.open({ contentType: wholeType(exchange), length: body.length });
    await exchange.sendBody(body.subarray(0, body.length >> 1));
  }
}

export async function openStream(exchange: Exchange): Promise<void> {
  const opening = { contentType: streamTypeOf(exchange), headers: [["Cache-Control", "no-cache"]] as const };
  await exchange.open(exchange.manner.declared ? { ...opening, length: wholeBody(exchange).length } : opening);
}

export async function sendRoles(exchange: Exchange): Promise<void> {
  for (const event of roleEvents(exchange)) await exchange.sendBody(event);
}

export async function sendSteps(exchange: Exchange, from: number, to: number): Promise<void> {
  const { manner } = exchange;
  for (let index = from; index < to; index += 1) {
    await exchange.pause(index === 0 ? manner.firstMs : manner.paceMs);
    const byteMs = manner.slowStep?.index === index ? manner.slowStep.byteMs : 0;
    for (const event of stepEvents(exchange, index)) await exchange.sendBody(event, byteMs);
  }
}

/** Finish, usage and `[DONE]`, as far as the manner has them, then the end of the body. */
export async function closeStream(exchange: Exchange): Promise<void> {
  await sendClosing(exchange);
  await exchange.complete();
}

export async function sendClosing(exchange: Exchange): Promise<void> {
  for (const event of closingEvents(exchange)) await exchange.sendBody(event);
}

export async function sendEvent(exchange: Exchange, payload: string): Promise<void> {
  await exchange.sendBody(bytesOf(exchange, payload));
}

/** One delta of reasoning. It is no part of the text that the ledger keeps. */
export async function sendReasoning(exchange: Exchange, words: string): Promise<void> {
  const choice = { index: 0, delta: { reasoning_content: words }, logprobs: null, finish_reason: null };
  exchange.attempt.thoughtsSent += 1;
  await sendEvent(exchange, chunk(exchange, [choice]));
}

/** Every byte of the body that a healthy answer would have. */
export function wholeBody(exchange: Exchange): Uint8Array {
  if (!exchange.ask.stream) return wholeCompletion(exchange);
  const steps = Array.from({ length: voice(exchange).count }, (_, index) => index);
  return Buffer.concat([...roleEvents(exchange), ...steps.flatMap((index) => stepEvents(exchange, index)), ...closingEvents(exchange)]);
}

export function voice(exchange: Exchange): Voice {
  const { ask, attempt, manner } = exchange;
  const performed = performance(exchange);
  if (performed === null) return voiceOf(ask, attempt.id, manner);
  return { count: performed.count, finishReason: "stop", step: () => null, message: () => ({}) };
}

/** The type of a healthy answer that comes whole, and of one that streams. */
export function wholeType(exchange: Exchange): string {
  const performed = performance(exchange);
  return performed === null || performed.streams ? jsonType : performed.contentType;
}

export function streamTypeOf(exchange: Exchange): string {
  const performed = performance(exchange);
  return performed?.streams === true ? performed.contentType : streamType;
}

export const jsonType = "application/json";
export const streamType = "text/event-stream; charset=utf-8";

/** Null for a chat. */
function performance(exchange: Exchange): Performance | null {
  switch (exchange.operation) {
    case "speech":
      return spoken(exchange);
    case "transcription":
      return transcribed(exchange);
    case "chat":
    case "other":
      return null;
  }
}

/** Bytes that are ready to be framed, and noted as sent. */
function performedStep(exchange: Exchange, performed: Performance, index: number): Uint8Array {
  const { audio, text, payload } = performed.step(index);
  if (audio !== null) exchange.attempt.audioSent.push(audio);
  record(exchange, 0, text);
  return payload === null ? (audio ?? new Uint8Array(0)) : bytesOf(exchange, payload, { first: index === 0 });
}

function performedWhole(exchange: Exchange, performed: Performance): Uint8Array {
  for (let index = 0; index < performed.count; index += 1) performedStep(exchange, performed, index);
  return performed.whole();
}

function wholeCompletion(exchange: Exchange): Uint8Array {
  const { manner } = exchange;
  const performed = performance(exchange);
  if (performed !== null) return performedWhole(exchange, performed);
  const { count, finishReason, message, step } = voice(exchange);
  const choices = choiceIndexes(exchange).map((index) => {
    for (let at = 0; at < count; at += 1) record(exchange, index, step(at, index)?.text ?? "");
    return {
      index,
      message: message(index),
      logprobs: null,
      finish_reason: manner.finishReason === undefined ? finishReason : manner.finishReason,
    };
  });
  const usage = manner.usage === "missing" ? null : usageOf(exchange, count);
  return manner.bytesOf(completion(exchange, choices, usage));
}

function roleEvents(exchange: Exchange): Uint8Array[] {
  if (performance(exchange) !== null) return [];
  return choiceIndexes(exchange).map((index) => {
    const delta = { role: "assistant", content: "", refusal: null };
    const payload = chunk(exchange, [{ index, delta, logprobs: null, finish_reason: null }]);
    return bytesOf(exchange, payload, { first: index === 0 });
  });
}

function stepEvents(exchange: Exchange, index: number): Uint8Array[] {
  const { interjection } = exchange.manner;
  const before = interjection?.index === index ? [bytesOf(exchange, interjection.payload)] : [];
  const performed = performance(exchange);
  if (performed !== null) return [...before, performedStep(exchange, performed, index)];
  const events = choiceIndexes(exchange).flatMap((choice) => {
    const step = voice(exchange).step(index, choice);
    if (step === null) return [];
    record(exchange, choice, step.text);
    const spoken = { index: choice, delta: step.delta, logprobs: null, finish_reason: null };
    return [bytesOf(exchange, chunk(exchange, [spoken]))];
  });
  return [...before, ...events];
}

function closingEvents(exchange: Exchange): Uint8Array[] {
  const { ask, manner } = exchange;
  const performed = performance(exchange);
  if (performed !== null) return performed.closing().map((payload) => bytesOf(exchange, payload));
  const { count, finishReason } = voice(exchange);
  const reason = manner.finishReason === undefined ? finishReason : manner.finishReason;
  const usage = usageOf(exchange, count);
  const early = manner.usage === "on-finish" ? usage : usageOf(exchange, 1);
  const carriesEarly = manner.usage === "on-finish" || manner.usage === "twice";
  const last = choiceIndexes(exchange).length - 1;

  const finishing = reason === null ? [] : choiceIndexes(exchange);
  const finishes = finishing.map((index) => {
    const choice = { index, delta: {}, logprobs: null, finish_reason: reason };
    return chunk(exchange, [choice], carriesEarly && index === last ? early : null);
  });
  const sendsUsage = manner.usage === "twice" || (manner.usage === "asked" && ask.includeUsage);
  const payloads = [...finishes, ...(sendsUsage ? [chunk(exchange, [], usage)] : []), ...(manner.done ? ["[DONE]"] : [])];
  return payloads.map((payload, index) => bytesOf(exchange, payload, { last: index === payloads.length - 1 }));
}

function bytesOf(exchange: Exchange, payload: string, place: { readonly first?: boolean; readonly last?: boolean } = {}): Uint8Array {
  return exchange.manner.bytesOf(eventText(exchange.manner, payload, place));
}

function record(exchange: Exchange, choice: number, text: string): void {
  if (text !== "") (exchange.attempt.choicesSent[choice] ??= []).push(text);
}

function choiceIndexes(exchange: Exchange): number[] {
  return Array.from({ length: exchange.ask.choices }, (_, index) => index);
}
