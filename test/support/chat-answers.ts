import type { Codec, EncodedRequest, StreamReader } from "../../src/dialects/dialect.ts";
import { type ChatRequest, readChatRequest } from "../../src/operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import type { WholeAnswer } from "../../src/operations/emission.ts";
import { channel } from "./plan-world.ts";

/** What was encoded before: sweeps over every byte of an answer ask for the same thousands of times. */
const known = new Map<Codec<ChatRequest>, Map<string, EncodedRequest>>();

/** A chat request as a codec sends it, and so the way it reads the answer. */
function encoded(codec: Codec<ChatRequest>, request: Readonly<Record<string, unknown>>): EncodedRequest {
  const ofCodec = known.get(codec) ?? new Map<string, EncodedRequest>();
  known.set(codec, ofCodec);
  const name = JSON.stringify(request);
  const made = ofCodec.get(name) ?? encode(codec, request);
  ofCodec.set(name, made);
  return made;
}

function encode(codec: Codec<ChatRequest>, request: Readonly<Record<string, unknown>>): EncodedRequest {
  const body = { model: "m", messages: [{ role: "user", content: "hello" }], ...request };
  const ask = readChatRequest(new TextEncoder().encode(JSON.stringify(body)));
  if (isFailure(ask)) throw new Error(ask.detail);
  const made = codec.encode(ask, { channel: channel("a"), model: "m", ceiling: null, meterStream: true, forwarded: {} });
  if (isFailure(made)) throw new Error(made.detail);
  return made;
}

/** The reader of a streamed answer. */
export function readerOf(codec: Codec<ChatRequest>, choices: number, hidesUsage: boolean): StreamReader {
  const { answer } = encoded(codec, { stream: true, n: choices, stream_options: { include_usage: !hidesUsage } });
  if (answer.kind !== "stream") throw new Error("a stream was asked for");
  const reader = answer.reader({ status: 200, header: () => null }, { transcoder: () => Promise.resolve(null) });
  if (reader instanceof Promise || isFailure(reader)) throw new Error("a chat stream needs no tools");
  return reader;
}

/** What is made of an answer that is not streamed. */
export function wholeOf(codec: Codec<ChatRequest>, body: Uint8Array): WholeAnswer | Failure {
  const { answer } = encoded(codec, {});
  if (answer.kind !== "whole") throw new Error("no stream was asked for");
  return answer.read(body, { status: 200, header: () => null });
}
