import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { SigningUpstream } from "../support/signing-upstream.ts";
import { ThinkingUpstream } from "../support/thinking-upstream.ts";

setDefaultTimeout(60_000);

/**
 * Loops of five turns with a tool, in which the upstream reasons in every turn and refuses a history that lacks a word of its reasoning.
 * The turns go to two gateways on one store by turns, and one of them is started anew in the middle where answers come whole: whoever
 * reads them from a stream gets the same ones.
 */
const clientKey = "sk-client-of-these-loops";
const otherKey = "sk-other-client-of-these-loops";
const turns = 5;

let first: ThinkingUpstream;
let second: ThinkingUpstream;
let signing: SigningUpstream;
let directory: string;
let gateways: Gateway[];

const config = () => ({
  keys: [
    { name: "client", key: clientKey },
    { name: "other", key: otherKey },
  ],
  channels: [
    { name: "first", base_url: first.url, api_key: "sk-up", models: ["m", "failing"], tier: 1 },
    { name: "second", base_url: second.url, api_key: "sk-up", models: ["failing", "moving"], tier: 2 },
    { name: "signing", provider: "anthropic", base_url: signing.url, api_key: "sk-up", models: ["claude-sonnet-5", "moving"], tier: 1 },
  ],
});

beforeAll(async () => {
  first = new ThinkingUpstream("first");
  second = new ThinkingUpstream("second");
  signing = new SigningUpstream();
  directory = mkdtempSync(join(tmpdir(), "sluice-loops-"));
  gateways = [await startGateway({ config: config(), directory }), await startGateway({ config: config(), directory })];
});

afterAll(async () => {
  for (const gateway of gateways) await gateway.kill();
  rmSync(directory, { recursive: true, force: true });
  await first.close();
  await second.close();
  await signing.close();
});

/** Each turn has another gateway, and in some loops the first of them is a new process from the third turn on. */
async function gatewayOf(turn: number, restarts: boolean): Promise<Gateway> {
  if (restarts && turn === 3) {
    await gateways[0]!.kill();
    gateways[0] = await startGateway({ config: config(), directory });
  }
  return gateways[turn % 2]!;
}

const look: Anthropic.Tool = { name: "look", input_schema: { type: "object", properties: { at: { type: "number" } } } };

/** Ends with the history that the client has, after the upstream's last word. */
async function messagesLoop(model: string, streamed: boolean, beforeTurn?: (turn: number) => void): Promise<Anthropic.MessageParam[]> {
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Look around." }];
  for (let turn = 1; turn <= turns; turn++) {
    beforeTurn?.(turn);
    const { url } = await gatewayOf(turn, !streamed && beforeTurn === undefined);
    const client = new Anthropic({ apiKey: clientKey, authToken: null, baseURL: url, maxRetries: 0 });
    const thinking = { type: "enabled", budget_tokens: 1024 } as const;
    const ask = { model, max_tokens: 2000, messages, tools: [look], thinking };
    const answer = streamed ? await client.messages.stream(ask).finalMessage() : await client.messages.create(ask);
    messages.push({ role: "assistant", content: answer.content });
    const calls = answer.content.filter((block) => block.type === "tool_use");
    expect(calls.length).toBe(turn < turns ? 1 : 0);
    if (calls.length === 0) break;
    messages.push({ role: "user", content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: `seen ${turn}` })) });
  }
  return messages;
}

async function responsesLoop(
  model: string,
  streamed: boolean,
  beforeTurn?: (turn: number) => void,
): Promise<OpenAI.Responses.ResponseInputItem[]> {
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "Look around." }];
  const tools: OpenAI.Responses.Tool[] = [{ type: "function", name: "look", parameters: { type: "object" }, strict: false }];
  for (let turn = 1; turn <= turns; turn++) {
    beforeTurn?.(turn);
    const { url } = await gatewayOf(turn, !streamed && beforeTurn === undefined);
    const client = new OpenAI({ apiKey: clientKey, baseURL: `${url}/v1`, maxRetries: 0 });
    const ask: OpenAI.Responses.ResponseCreateParamsNonStreaming = {
      ...{ model, input: [...input], tools, store: false },
      reasoning: { effort: "high" },
      include: ["reasoning.encrypted_content"],
    };
    const answer: OpenAI.Responses.Response = streamed
      ? await client.responses.stream({ ...ask, stream: true }).finalResponse()
      : await client.responses.create(ask);
    input.push(...(answer.output as OpenAI.Responses.ResponseInputItem[]));
    const calls = answer.output.flatMap((item) => (item.type === "function_call" ? [item.call_id] : []));
    expect(calls.length).toBe(turn < turns ? 1 : 0);
    for (const call_id of calls) input.push({ type: "function_call_output", call_id, output: `seen ${turn}` });
  }
  return input;
}

async function chatLoop(
  model: string,
  streamed: boolean,
  beforeTurn?: (turn: number) => void,
): Promise<OpenAI.ChatCompletionMessageParam[]> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Look around." }];
  const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }];
  for (let turn = 1; turn <= turns; turn++) {
    beforeTurn?.(turn);
    const { url } = await gatewayOf(turn, !streamed && beforeTurn === undefined);
    const client = new OpenAI({ apiKey: clientKey, baseURL: `${url}/v1`, maxRetries: 0 });
    const ask = { model, messages, tools, reasoning_effort: "high", max_completion_tokens: 20_000 } as const;
    const answer = streamed ? await client.chat.completions.stream(ask).finalChatCompletion() : await client.chat.completions.create(ask);
    const { message } = answer.choices[0]!;
    messages.push(message);
    const calls = message.tool_calls ?? [];
    expect(calls.length).toBe(turn < turns ? 1 : 0);
    for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: `seen ${turn}` });
  }
  return messages;
}

describe("reasoning survives a loop of tools over two gateways, and over a restart", () => {
  test.each([false, true])("for the Messages client over a chat upstream (streamed: %p)", async (streamed) => {
    first.forget();
    const messages = await messagesLoop("m", streamed);
    expect(first.complaints).toEqual([]);
    expect(first.received).toBe(turns);
    const signatures = messages.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.flatMap((block) => (block.type === "thinking" ? [block.signature] : [])),
    );
    expect(signatures).toHaveLength(turns);
    for (const signature of signatures) expect(signature).toMatch(/^sluice-v1\./);
  });

  test.each([false, true])("for the Responses client over a chat upstream (streamed: %p)", async (streamed) => {
    first.forget();
    const items = await responsesLoop("m", streamed);
    expect(first.complaints).toEqual([]);
    expect(first.received).toBe(turns);
    expect(JSON.stringify(items).match(/"encrypted_content":"sluice-v1\./g)).toHaveLength(turns);
  });
});

describe("signed reasoning survives a loop of tools over two gateways, and over a restart", () => {
  test.each([false, true])("for the Messages client over its own API, as it is (streamed: %p)", async (streamed) => {
    signing.forget();
    expect(JSON.stringify(await messagesLoop("claude-sonnet-5", streamed))).not.toContain("sluice-v1.");
    expect(signing.complaints).toEqual([]);
    expect(signing.bodies).toHaveLength(turns);
  });

  test.each([false, true])("for the Responses client over the Messages API (streamed: %p)", async (streamed) => {
    signing.forget();
    const items = await responsesLoop("claude-sonnet-5", streamed);
    expect(signing.complaints).toEqual([]);
    expect(signing.bodies).toHaveLength(turns);
    expect(JSON.stringify(items).match(/"encrypted_content":"sluice-v1\./g)).toHaveLength(turns);
  });

  test.each([false, true])("for the chat client over the Messages API (streamed: %p)", async (streamed) => {
    signing.forget();
    const messages = await chatLoop("claude-sonnet-5", streamed);
    expect(signing.complaints).toEqual([]);
    expect(signing.bodies).toHaveLength(turns);
    expect(JSON.stringify(messages)).toContain("sluice-v1.");
  });
});

describe("reasoning that was sealed", () => {
  test("is not sent to another provider after a failover, and the loop goes on", async () => {
    first.forget();
    second.forget();
    await messagesLoop("failing", true, (turn) => (first.broken = turn >= 3));
    first.broken = false;
    expect(second.received).toBe(3);
    expect(second.complaints).toEqual([]);
    expect(second.bodies.join("")).not.toContain("first thinks");
    expect(second.bodies.join("")).not.toContain("sluice-v1.");
  });

  test.each([
    ["chat", chatLoop],
    ["Responses", responsesLoop],
  ] as const)("by a provider with another API is not sent to one that speaks chat completions either: %s", async (_, loop) => {
    signing.forget();
    second.forget();
    // Of a stream whose bytes pass, the chat client keeps only the last piece of a thought.
    await loop("moving", loop === responsesLoop, (turn) => (signing.broken = turn >= 3));
    signing.broken = false;
    expect(signing.complaints).toEqual([]);
    expect(second.complaints).toEqual([]);
    expect(second.received).toBe(3);
    for (const foreign of ["In turn", "signed==", "sluice-v1."]) expect(second.bodies.join("")).not.toContain(foreign);
  });

  test.each<[string, (signature: string) => string]>([
    ["cut off", (signature) => signature.slice(0, -9)],
    ["changed", (signature) => signature.slice(0, -9) + "AAAAAAAAA"],
    ["forged", () => "sluice-v1.00000000.AAAA"],
    ["empty but for its prefix", () => "sluice-v1."],
    ["of an unknown version", (signature) => signature.replace(/\.\w{8}\./, ".ffffffff.")],
  ])("and %s is left out without a word", async (_, damaged) => {
    first.forget();
    const client = new Anthropic({ apiKey: clientKey, authToken: null, baseURL: gateways[0]!.url, maxRetries: 0 });
    const { status, body } = await resent(client, damaged);
    expect(status).toBe("end_turn");
    expect(body).not.toContain("first thinks");
    expect(body).not.toContain("sluice-v1.");
  });

  test("for another client is left out without a word", async () => {
    first.forget();
    const { body } = await resent(
      new Anthropic({ apiKey: otherKey, authToken: null, baseURL: gateways[1]!.url, maxRetries: 0 }),
      (same) => same,
    );
    expect(body).not.toContain("first thinks");
    const again = await resent(
      new Anthropic({ apiKey: clientKey, authToken: null, baseURL: gateways[1]!.url, maxRetries: 0 }),
      (same) => same,
    );
    expect(again.body).toContain("first thinks");
  });

  /** One answer with reasoning, sent back by a client with its signature changed. */
  async function resent(
    client: Anthropic,
    change: (signature: string) => string,
  ): Promise<{ readonly status: string | null; readonly body: string }> {
    const owner = new Anthropic({ apiKey: clientKey, authToken: null, baseURL: gateways[0]!.url, maxRetries: 0 });
    const question: Anthropic.MessageParam = { role: "user", content: "Look around." };
    const answer = await owner.messages.create({ model: "m", max_tokens: 500, messages: [question], tools: [look] });
    const content = answer.content.map((block) => (block.type === "thinking" ? { ...block, signature: change(block.signature) } : block));
    first.lenient = true;
    const id = answer.content.find((block) => block.type === "tool_use")!.id;
    const results: Anthropic.MessageParam = { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "seen" }] };
    const messages: Anthropic.MessageParam[] = [question, { role: "assistant", content }, results];
    const { stop_reason } = await client.messages.create({ model: "m", max_tokens: 500, messages });
    first.lenient = false;
    return { status: stop_reason, body: first.bodies.at(-1)! };
  }
});
