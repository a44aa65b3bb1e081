import { describe, expect, test } from "bun:test";
import { openai } from "../../../src/dialects/openai/openai.ts";
import { spliceResponsesBody } from "../../../src/dialects/openai-responses/native-body.ts";
import { openaiResponses } from "../../../src/dialects/openai-responses/openai-responses.ts";
import { strictQuirks, usualQuirks } from "../../../src/dialects/presets.ts";
import type { ModelApi } from "../../../src/channels/channel.ts";
import type { Target } from "../../../src/dialects/dialect.ts";
import { readChatRequest, type ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import type { Part } from "../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { messagesSurface, responsesSurface } from "../../../src/surfaces/index.ts";
import { channel } from "../../support/plan-world.ts";

function asked(body: string): ChatRequest {
  const ask = responsesSurface.parse(new TextEncoder().encode(body));
  if (isFailure(ask)) throw new Error(ask.detail);
  return ask;
}

const unseal = (data: string): Part => ({
  kind: "reasoning",
  text: "",
  signature: data === "sluice-v1.own" ? { dialect: "openai-responses", data: "enc" } : { dialect: "anthropic", data: "sig" },
});

function spliced(body: string, ceiling: number | null = null): string {
  return new TextDecoder().decode(spliceResponsesBody(asked(body), { model: "up", ceiling, unseal }).body);
}

describe("a request in the same API", () => {
  test("keeps every byte but the model's name", () => {
    const body =
      '{ "input" : [ {"role":"user","content":"h\\u00e9"} ],\n\t"store":true, "x-unknown": 1e0, "model": "m", "tools":[{"type":"web_search"}]}';
    expect(spliced(body)).toBe(body.replace('"m"', '"up"'));
  });

  test("has the model's name in every place where an upstream may read it", () => {
    expect(spliced('{"model":"a","input":"x","model":"m"}')).toBe('{"model":"up","input":"x","model":"up"}');
  });

  test("has no more tokens than the ceiling, and says so", () => {
    const body = '{"model":"m","input":"x","max_output_tokens":5000}';
    expect(spliced(body, 100)).toContain('"max_output_tokens":100');
    expect(spliceResponsesBody(asked(body), { model: "up", ceiling: 100, unseal }).clampedTo).toBe(100);
    expect(spliced(body, 6000)).toContain('"max_output_tokens":5000');
    expect(spliced('{"model":"m","input":"x"}', 6000)).not.toContain("max_output_tokens");
  });

  const user = '{"role":"user","content":"hi"}';
  const native = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"}';
  const foreign = '{"type":"reasoning","id":"rs_sluice_1","summary":[],"encrypted_content":"sluice-v1.other"}';
  const unsigned = '{"id":"rs_sluice_2","summary":[],"type":"reasoning"}';
  const own = '{"type":"reasoning","id":"rs_sluice_3","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"sluice-v1.own"}';
  const opened = '{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"enc"}';
  const about = '{"role":"user","content":"what is sluice-v1. and rs_sluice_?"}';

  test.each([
    [
      [user, native, about],
      [user, native, about],
    ],
    [[foreign, user], [user]],
    [[user, foreign], [user]],
    [
      [user, foreign, unsigned, native, foreign, unsigned],
      [user, native],
    ],
    [
      [user, own, foreign],
      [user, opened],
    ],
    [[foreign, own], [opened]],
    [[foreign], []],
  ])("%#. has no reasoning that another upstream made", (items, kept) => {
    for (const comma of [",", " , "]) {
      const body = `{"model":"m","input":[ ${items.join(comma)} ],"stream":true}`;
      const sent = JSON.parse(spliced(body)) as { readonly input: unknown };
      expect(sent.input).toEqual(JSON.parse(`[${kept.join(",")}]`));
    }
  });
});

describe("which API a channel is asked in", () => {
  const target = (chatApis: readonly ModelApi[], model: string): Target => {
    const made = channel("a", { quirks: { ...usualQuirks, chatApis } });
    return { channel: made, model, ceiling: null, meterStream: true, forwarded: {} };
  };
  const asks = {
    responses: responsesSurface.parse(bytes({ model: "m", input: "x" })),
    chat: readChatRequest(bytes({ model: "m", messages: [{ role: "user", content: "x" }] })),
    "chat with tools": readChatRequest(
      bytes({ model: "m", messages: [{ role: "user", content: "x" }], tools: [{ type: "function", function: { name: "f" } }] }),
    ),
    "chat with tools and reasoning": readChatRequest(
      bytes({
        model: "m",
        messages: [{ role: "user", content: "x" }],
        tools: [{ type: "function", function: { name: "f" } }],
        reasoning_effort: "high",
      }),
      messagesConversation,
    ),
    messages: messagesSurface.parse(bytes({ model: "m", max_tokens: 20, messages: [{ role: "user", content: "x" }] })),
  };

  function bytes(value: unknown): Uint8Array {
    return new TextEncoder().encode(JSON.stringify(value));
  }

  /** What such a request says does not matter here. */
  function messagesConversation(): ReturnType<ChatRequest["toConversation"]> {
    const ask = messagesSurface.parse(bytes({ model: "m", max_tokens: 20, messages: [{ role: "user", content: "x" }] }));
    return isFailure(ask) ? ask : ask.toConversation(ask);
  }

  function pathOf(name: keyof typeof asks, chatApis: readonly ModelApi[], model: string, dialect = openai): string {
    const ask = asks[name];
    if (isFailure(ask)) throw new Error(ask.detail);
    const encoded = dialect.chat!.encode(ask, target(chatApis, model));
    if (isFailure(encoded)) throw new Error(encoded.detail);
    return new URL(encoded.request.url).pathname;
  }

  const both = strictQuirks.chatApis;

  test.each([
    ["responses", both, "gpt-4o", "/v1/responses"],
    ["responses", [], "gpt-4o", "/v1/chat/completions"],
    ["chat", both, "gpt-4o", "/v1/chat/completions"],
    ["chat", both, "gpt-5.4", "/v1/chat/completions"],
    ["chat with tools", both, "gpt-5.4", "/v1/chat/completions"],
    ["chat with tools and reasoning", both, "gpt-5.2", "/v1/chat/completions"],
    ["chat with tools and reasoning", both, "gpt-5.3", "/v1/responses"],
    ["chat with tools and reasoning", both, "gpt-5.4-mini", "/v1/responses"],
    ["chat with tools and reasoning", both, "gpt-5.10", "/v1/responses"],
    ["chat with tools and reasoning", both, "openai/gpt-6", "/v1/responses"],
    ["chat with tools and reasoning", both, "gpt-35-turbo", "/v1/chat/completions"],
    ["chat with tools and reasoning", both, "my-deployment", "/v1/chat/completions"],
    ["chat with tools and reasoning", [{ models: "my-*", api: "responses" }], "my-deployment", "/v1/responses"],
    ["chat with tools and reasoning", [], "gpt-5.4", "/v1/chat/completions"],
    ["messages", both, "gpt-4o", "/v1/chat/completions"],
    ["messages", both, "gpt-5.4", "/v1/responses"],
    ["messages", both, "o3-pro", "/v1/responses"],
    ["messages", both, "gpt-5.1-codex-max", "/v1/responses"],
    ["messages", [{ models: "gpt-*", api: "chat" }, ...both], "gpt-5.4", "/v1/chat/completions"],
  ] as const)("%s, with %j, for %s: %s", (name, chatApis, model, path) => {
    expect(pathOf(name, chatApis, model)).toBe(path);
  });

  test.each(["previous_response_id", "conversation"])("decides whether %s means anything to it", (name) => {
    const ask = responsesSurface.parse(bytes({ model: "gpt-4o", input: "and then?", [name]: "stored_1" }));
    if (isFailure(ask)) throw new Error(ask.detail);
    const native = openai.chat!.encode(ask, target(both, "gpt-4o"));
    if (isFailure(native)) throw new Error(native.detail);
    expect(JSON.parse(new TextDecoder().decode(native.request.body as Uint8Array))).toMatchObject({ [name]: "stored_1" });
    // A channel of the other kind may be next.
    expect(openai.chat!.encode(ask, target([], "gpt-4o"))).toMatchObject({
      kind: "unsupported",
      code: "unsupported_parameter",
      param: name,
    });
  });

  test("is this one in a dialect of its own, whatever the model", () => {
    for (const name of ["responses", "messages"] as const) expect(pathOf(name, [], "any", openaiResponses)).toBe("/v1/responses");
  });
});
