import { describe, expect, test } from "bun:test";
import { bedrockHost, ownHost, vertexHost, type AnthropicHost } from "../../../src/dialects/anthropic/hosts.ts";
import { readMessage } from "../../../src/dialects/anthropic/answer.ts";
import { encodeMessages } from "../../../src/dialects/anthropic/messages-body.ts";
import { MessagesStream } from "../../../src/dialects/anthropic/stream.ts";
import { readGeminiAnswer } from "../../../src/dialects/gemini/answer.ts";
import { encodeGeminiBody } from "../../../src/dialects/gemini/request-body.ts";
import { GeminiStream } from "../../../src/dialects/gemini/stream.ts";
import { DeclaredTools, responseAnswer } from "../../../src/dialects/openai-responses/items.ts";
import { encodeResponsesBody } from "../../../src/dialects/openai-responses/responses-body.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import type { EventDecoder } from "../../../src/dialects/dialect.ts";
import type { CitedPage, ChatAnswer, StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { JsonObject } from "../../../src/operations/json.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";
import { chunksOf, contextOf, conversationOf, requestWith, surface as chat } from "../../support/chat-surface.ts";
import { collectStream } from "../../support/collected-stream.ts";

type Json = Readonly<Record<string, unknown>>;
const encoder = new TextEncoder();
const bytesOf = (value: object): Uint8Array => encoder.encode(JSON.stringify(value));
const parsed = (bytes: Uint8Array): Json => JSON.parse(new TextDecoder().decode(bytes)) as Json;

function answerOf(whole: WholeAnswer | Failure): ChatAnswer {
  if (isFailure(whole) || whole.answer === undefined) throw new Error("no answer");
  return whole.answer;
}

/** The parts of a stream, cut at every byte. */
function partsOf(decoder: EventDecoder, events: readonly object[]): readonly StreamPart[] {
  const bytes = encoder.encode(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  const { parts, failure } = collectStream(
    new EventReader(decoder),
    Array.from(bytes, (byte) => Uint8Array.of(byte)),
  );
  if (failure !== null) throw new Error(failure.detail);
  return parts;
}

const page = (start: number, end: number, url = "https://weather.example/oslo"): CitedPage => ({ url, title: "Oslo", start, end });
const citation = { type: "web_search_result_location", url: page(0, 0).url, title: "Oslo", encrypted_index: "x", cited_text: "rain" };
const ofDocument = { type: "char_location", document_index: 0, cited_text: "rain" };

describe("the pages that an answer is made of", () => {
  const content = [
    { type: "text", text: "Grüße: " },
    { type: "server_tool_use", id: "s", name: "web_search", input: {} },
    { type: "text", text: "it rains.", citations: [citation, ofDocument] },
  ];
  const message = { id: "m", type: "message", role: "assistant", model: "c", content, stop_reason: "end_turn", usage: {} };

  test("are those of its citations, whole and streamed", () => {
    expect(answerOf(readMessage(bytesOf(message), [])).sources).toEqual([page(7, 16)]);
    const events = [
      { type: "message_start", message: { ...message, content: [], stop_reason: null } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Grüße: " } },
      { type: "content_block_stop", index: 0 },
      { type: "content_block_start", index: 1, content_block: { type: "text", text: "", citations: [] } },
      { type: "content_block_delta", index: 1, delta: { type: "citations_delta", citation } },
      { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "it " } },
      { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "rains." } },
      { type: "content_block_stop", index: 1 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } },
      { type: "message_stop" },
    ];
    const parts = partsOf(new MessagesStream([]), events);
    expect(parts.filter(({ kind }) => kind === "sources")).toEqual([{ kind: "sources", sources: [page(7, 16)] }]);
  });

  test("are those of the grounding, whose places are bytes", () => {
    const groundingMetadata = {
      groundingChunks: [{ web: { uri: page(0, 0).url, title: "Oslo" } }, { web: { uri: "javascript:alert(1)" } }, null],
      groundingSupports: [
        { segment: { startIndex: 9, endIndex: 18, text: "it rains." }, groundingChunkIndices: [0, 1, 2, 99, "0"] },
        { segment: null, groundingChunkIndices: "all" },
        null,
      ],
    };
    const candidate = (text: string, more: object = {}): JsonObject => ({ content: { parts: [{ text }] }, index: 0, ...more });
    const end = { finishReason: "STOP", groundingMetadata };
    const whole = answerOf(readGeminiAnswer(bytesOf({ candidates: [candidate("Grüße: it rains.", end)] }), []));
    expect(whole.sources).toEqual([page(7, 16)]);
    const events = [{ candidates: [candidate("Grüße: ")] }, { candidates: [candidate("it rains.", end)] }];
    const parts = partsOf(new GeminiStream({ choices: 1, tools: [] }), events);
    expect(parts.filter(({ kind }) => kind === "sources")).toEqual([{ kind: "sources", sources: [page(7, 16)] }]);
  });

  test("are the annotations of a response", () => {
    const annotations = [
      { type: "url_citation", url: page(0, 0).url, title: "Oslo", start_index: 0, end_index: 9 },
      { type: "file_citation" },
    ];
    const item = (text: string, more: readonly object[]): object => ({
      type: "message",
      content: [{ type: "output_text", text, annotations: more }],
    });
    const response = { id: "r", status: "completed", output: [item("Grüße: ", []), item("it rains.", annotations)] };
    // Behind the paragraph between the two messages.
    const { parts, sources } = responseAnswer(response, new DeclaredTools([]));
    expect(parts.map((part) => ("text" in part ? part.text : ""))).toEqual(["Grüße: ", "\n\nit rains."]);
    expect(sources).toEqual([page(9, 18)]);
  });
});

describe("a client reads them as annotations", () => {
  const start: StreamPart = { kind: "start", id: null, model: "m", createdSeconds: null };
  const text = (value: string): StreamPart => ({ kind: "text", text: value });
  const finish = { reason: "stop", stopSequence: null } as const;
  const answer: ChatAnswer = {
    ...{ id: null, model: "m", createdSeconds: null, finish, usage: null },
    parts: [
      { kind: "text", text: "Hello. " },
      { kind: "text", text: "It rains." },
    ],
    sources: [page(7, 16)],
  };
  const ofChat = { type: "url_citation", url_citation: { start_index: 7, end_index: 16, title: "Oslo", url: page(0, 0).url } };
  const ofResponses = (from: number): object => ({
    ...{ type: "url_citation", start_index: from, end_index: from + 9 },
    ...{ url: page(0, 0).url, title: "Oslo" },
  });

  test("of a chat completion, whole and at the end of a stream", () => {
    expect(parsed(chat.whole(answer, contextOf()))).toMatchObject({ choices: [{ message: { annotations: [ofChat] } }] });
    const writer = chat.writer(contextOf({ stream: true }));
    const written = [writer.write([start, text("Hello. "), text("It rains."), { kind: "sources", sources: [page(7, 16)] }]), writer.end()];
    const deltas = chunksOf(Buffer.concat(written)).map(({ choices }) => (choices as readonly { delta: Json }[])[0]?.delta);
    expect(deltas.filter((delta) => delta?.["annotations"] !== undefined)).toEqual([{ annotations: [ofChat] }]);
  });

  test("of a chat completion whose second half another channel wrote, at their place in the whole", () => {
    const writer = chat.writer(contextOf({ stream: true }));
    const written = [
      writer.write([start, text("Hello. ")]),
      writer.write([start, text("It rains."), { kind: "sources", sources: [page(0, 9)] }]),
      writer.end(),
    ];
    expect(new TextDecoder().decode(Buffer.concat(written))).toContain(JSON.stringify({ annotations: [ofChat] }));
  });

  test("of a response, in the message that they are about", () => {
    const context = { ...contextOf(), request: { ...contextOf().request, echo: {} } };
    const output = parsed(openaiResponses.whole(answer, context))["output"] as readonly { content: readonly { annotations: unknown }[] }[];
    expect(output.map(({ content: [first] }) => first?.annotations)).toEqual([[], [ofResponses(0)]]);
    const writer = openaiResponses.writer(context);
    const written = [writer.write([start, text("Hello. "), text("It rains."), { kind: "sources", sources: [page(7, 16)] }]), writer.end()];
    const events = new TextDecoder()
      .decode(Buffer.concat(written))
      .split("\n")
      .flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6)) as Json] : []));
    const added = events.filter(({ type }) => type === "response.output_text.annotation.added");
    expect(added).toMatchObject([{ output_index: 0, content_index: 0, annotation_index: 0, annotation: ofResponses(7) }]);
    expect(events.at(-1)).toMatchObject({ response: { output: [{ content: [{ annotations: [ofResponses(7)] }] }] } });
  });
});

describe("a chat that may search the web", () => {
  const place = { country: "NO", city: "Oslo" };
  const asked = conversationOf(
    requestWith({ web_search_options: { search_context_size: "low", user_location: { type: "approximate", approximate: place } } }),
  );
  const tools = [{ type: "function", function: { name: "web_search", parameters: { type: "object" } } }];

  function messages(host: AnthropicHost, conversation = asked): { readonly tools: unknown; readonly dropped: readonly string[] } {
    const encoded = encodeMessages(conversation, { host, model: "claude-opus-5-5", ceiling: null, betas: [] });
    if (isFailure(encoded)) throw new Error(encoded.detail);
    return { tools: parsed(encoded.body)["tools"], dropped: encoded.dropped };
  }

  test("has the tool of each API for that, and what has no place in it is named", () => {
    const tool = { type: "web_search_20250305", name: "web_search", user_location: { type: "approximate", ...place } };
    for (const host of [ownHost, vertexHost]) {
      expect(messages(host)).toEqual({ tools: [tool], dropped: ["web_search_options.search_context_size"] });
    }
    const generate = encodeGeminiBody(asked, { model: "gemini-3-pro", maxOutputTokens: null, hasTiers: true });
    if (isFailure(generate)) throw new Error(generate.detail);
    expect(parsed(generate.body)["tools"]).toEqual([{ googleSearch: {} }]);
    expect(generate.dropped).toEqual(["web_search_options.user_location", "web_search_options.search_context_size"]);
    const response = encodeResponsesBody(asked, { model: "gpt-5.4", maxOutputTokens: null });
    if (isFailure(response)) throw new Error(response.detail);
    const { type, user_location } = { type: "web_search", user_location: { type: "approximate", ...place } };
    expect(parsed(response.body)["tools"]).toEqual([{ type, search_context_size: "low", user_location }]);
    expect(response.dropped).toEqual([]);
  });

  test("does not search where the upstream has no such tool, or the client has one of that name, and is told", () => {
    expect(messages(bedrockHost(ownHost.reader))).toEqual({ tools: undefined, dropped: ["web_search_options"] });
    const own = conversationOf(requestWith({ web_search_options: {}, tools }));
    expect(messages(ownHost, own).dropped).toEqual(["web_search_options"]);
    const older = encodeGeminiBody(own, { model: "gemini-2.5-pro", maxOutputTokens: null, hasTiers: true });
    expect(isFailure(older) ? [] : older.dropped).toContain("web_search_options");
  });
});
