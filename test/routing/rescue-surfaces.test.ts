import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI from "openai";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** `a` is asked first; `fluent` continues an unfinished message, `plain` can only start over. */
let rig: Rig<"a" | "fluent" | "plain">;
let messages: Anthropic;
let responses: OpenAI;

const words = "word0 word1 word2 word3 word4";
const continuing = ["continues-1", "continues-2", "continues-3"];
const restarting = ["restarts-1", "restarts-2", "restarts-3"];
const failing = ["fails-1", "fails-2", "fails-3"];

beforeAll(async () => {
  rig = await setUp(
    {
      a: { models: [...continuing, ...restarting, ...failing], tier: 1 },
      fluent: { models: continuing, tier: 2, capabilities: { prefill: true } },
      plain: { models: [...restarting, ...failing], tier: 2 },
    },
    { routing: { rescue: "continue" } },
  );
  messages = new Anthropic({ apiKey: clientKey, authToken: null, baseURL: rig.gateway.url, maxRetries: 0 });
  responses = new OpenAI({ apiKey: clientKey, baseURL: `${rig.gateway.url}/v1`, maxRetries: 0 });
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

/** The text of a stream and how it ended, through each of the clients. */
const clients = [
  {
    name: "the Messages API",
    at: 0,
    ask: async (model: string) => {
      const stream = messages.messages.stream({ model, max_tokens: 500, messages: [{ role: "user", content: "Say something." }] });
      const message = await stream.finalMessage();
      const texts = message.content.map((block) => (block.type === "text" ? block.text : block.type));
      return { texts, end: String(message.stop_reason), tokens: message.usage.output_tokens };
    },
  },
  {
    name: "the Responses API",
    at: 1,
    ask: async (model: string) => {
      const response = await responses.responses.stream({ model, input: "Say something." }).finalResponse();
      return { texts: [response.output_text], end: String(response.status), tokens: response.usage?.output_tokens ?? 0 };
    },
  },
  {
    name: "the Gemini API",
    at: 2,
    ask: async (model: string) => {
      const response = await fetch(`${rig.gateway.url}/v1beta/models/${model}:streamGenerateContent?alt=sse`, {
        method: "POST",
        headers: { "x-goog-api-key": clientKey },
        body: JSON.stringify({ contents: [{ parts: [{ text: "Say something." }] }] }),
      });
      const events = (await response.text()).split("\n\n").filter((event) => event !== "");
      const read = events.map((event) => JSON.parse(event.replace(/^data: /, "")) as GenerateEvent);
      if (read.some(({ error }) => error !== undefined)) throw new Error("the stream ended with an error");
      const texts = [read.flatMap(({ candidates }) => candidates?.[0]?.content.parts.map(({ text }) => text) ?? []).join("")];
      const last = read.at(-1);
      return { texts, end: String(last?.candidates?.[0]?.finishReason), tokens: last?.usageMetadata?.candidatesTokenCount ?? 0 };
    },
  },
] as const;

interface GenerateEvent {
  readonly error?: object;
  readonly candidates?: readonly {
    readonly content: { readonly parts: readonly { readonly text?: string }[] };
    readonly finishReason?: string;
  }[];
  readonly usageMetadata?: { readonly candidatesTokenCount: number };
}

const ends = ["end_turn", "completed", "STOP"] as const;

describe.each(clients)("a text that breaks off in $name", ({ at, ask }) => {
  const end = ends[at];

  test("is continued by a channel that can, as one text", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script(["fault:same-text+prefix-continue"]);
    expect(await ask(continuing[at]!)).toMatchObject({ texts: [words], end });
    const asked = JSON.parse(Buffer.from(rig.upstream.fluent.ledger.chats.at(-1)!.body).toString()) as {
      readonly messages: readonly { readonly role: string; readonly content: string }[];
    };
    expect(asked.messages.at(-1)).toEqual({ role: "assistant", content: "word0 word1 word2" });
  });

  test("is continued after an end mark that comes without a reason", async () => {
    rig.upstream.a.script(["fault:same-text+cut-with-done@3"]);
    rig.upstream.fluent.script(["fault:same-text+prefix-continue"]);
    expect(await ask(continuing[at]!)).toMatchObject({ texts: [words], end });
  });

  test("is reported as broken if the channel that goes on with it ends without a reason", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.plain.script(["fault:same-text+done-without-finish"]);
    const failed = await ask(failing[at]!).then(
      ({ end: ended }) => ended,
      () => "failed",
    );
    expect(failed).toBe("failed");
  });

  test("is begun again by a channel that can only do that: what is said again is swallowed", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.plain.script(["fault:same-text"]);
    expect(await ask(restarting[at]!)).toMatchObject({ texts: [words], end });
  });

  test("is reported as broken if the other channel says something else", async () => {
    rig.upstream.a.script(["fault:different-text+end-after@3"]);
    rig.upstream.plain.script(["fault:different-text"]);
    const failed = await ask(failing[at]!).then(
      ({ end: ended }) => ended,
      () => "failed",
    );
    expect(failed).toBe("failed");
  });
});

describe("a request with a tool that runs at the provider, over an upstream that gets it without the tool", () => {
  test("is repeated elsewhere after an ambiguous failure: no tool runs twice", async () => {
    rig.upstream.a.script(["fault:html-200"]);
    rig.upstream.plain.script(["fault:same-text"]);
    const response = await responses.responses.create({ model: failing[1]!, input: "Say something.", tools: [{ type: "web_search" }] });
    expect(response.output_text).toBe(words);
  });
});
