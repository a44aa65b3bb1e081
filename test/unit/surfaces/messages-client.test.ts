import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import type { ChatAnswer } from "../../../src/operations/conversation/answer-parts.ts";
import type { SurfaceFailure } from "../../../src/operations/conversation/surface.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { countTokensBody, modelsBody, readCountTokensRequest, type ListedModel } from "../../../src/surfaces/anthropic-messages/index.ts";
import { contextOf, conversationOf, surface, textOf } from "../../support/messages.ts";

/** The official client in front of the surface, without a socket between them. */
function clientOf(answer: (path: string, query: URLSearchParams, body: Uint8Array) => Uint8Array | Response): Anthropic {
  return new Anthropic({
    apiKey: "none",
    baseURL: "http://gateway.invalid",
    maxRetries: 0,
    logLevel: "off",
    fetch: async (input, init) => {
      const { pathname, searchParams } = new URL(input instanceof Request ? input.url : input);
      const sent = answer(pathname, searchParams, new Uint8Array(await new Response(init?.body as BodyInit | null).arrayBuffer()));
      return sent instanceof Response ? sent : new Response(textOf(sent), { headers: { "content-type": "application/json" } });
    },
  });
}

const request = { model: "m", max_tokens: 10, messages: [{ role: "user" as const, content: "x" }] };

describe("the official client", () => {
  test("has its request understood, and understands a whole answer", async () => {
    const answer: ChatAnswer = {
      ...{ id: null, model: "served", createdSeconds: null, usage: null, finish: { reason: "tool_calls", stopSequence: null } },
      parts: [
        { kind: "reasoning", text: "hm", signature: null },
        { kind: "text", text: "Let me look." },
        { kind: "tool_call", id: "call_1", name: "read", arguments: '{"path":"a"}' },
      ],
    };
    let asked: unknown;
    const client = clientOf((_, __, body) => {
      asked = conversationOf(textOf(body));
      return surface.whole(answer, contextOf());
    });
    const message = await client.messages.create({
      ...request,
      system: "Be brief.",
      tools: [{ name: "read", input_schema: { type: "object", properties: { path: { type: "string" } } } }],
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      thinking: { type: "adaptive" },
      output_config: { effort: "low" },
    });
    expect(asked).toMatchObject({
      turns: [{ role: "system" }, { role: "user", parts: [{ kind: "text", text: "x" }] }],
      tools: [{ name: "read", parameters: { type: "object", properties: { path: { type: "string" } } } }],
      ...{ toolChoice: { kind: "auto" }, parallelToolCalls: false, reasoning: { effort: "low" }, maxOutputTokens: 10, uncarried: [] },
    });
    expect(message).toMatchObject({ id: "msg_seed", model: "served", stop_reason: "tool_use" });
    expect(message.content).toMatchObject([
      { type: "thinking", thinking: "hm" },
      { type: "text", text: "Let me look." },
      { type: "tool_use", id: "call_1", name: "read", input: { path: "a" } },
    ]);
  });

  test.each<[number, new (...values: never[]) => Error, string]>([
    [400, Anthropic.BadRequestError, "invalid_request_error"],
    [401, Anthropic.AuthenticationError, "authentication_error"],
    [403, Anthropic.PermissionDeniedError, "permission_error"],
    [404, Anthropic.NotFoundError, "not_found_error"],
    [409, Anthropic.ConflictError, "conflict_error"],
    [429, Anthropic.RateLimitError, "rate_limit_error"],
    [500, Anthropic.InternalServerError, "api_error"],
    [503, Anthropic.InternalServerError, "overloaded_error"],
  ])("takes the error of status %d for its own", async (status, type, name) => {
    const failure: SurfaceFailure = { status, type: "x", code: "some_code", param: null, message: "It is wrong." };
    const client = clientOf(
      () =>
        new Response(textOf(surface.error(failure, "req_1")), {
          status: surface.status!(failure),
          headers: { "content-type": "application/json", "request-id": "req_1" },
        }),
    );
    const error = (await client.messages.create(request).catch((thrown: unknown) => thrown)) as InstanceType<typeof Anthropic.APIError>;
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({ type: name, apiMessage: "It is wrong.", errorCode: "some_code", requestID: "req_1" });
  });

  test("pages through the models", async () => {
    const models: readonly ListedModel[] = Array.from({ length: 45 }, (_, at) => ({ id: `m${at}`, displayName: null, createdSeconds: at }));
    const client = clientOf((path, query) => {
      expect(path).toBe("/v1/models");
      const page = modelsBody(models, { limit: query.get("limit"), afterId: query.get("after_id"), beforeId: query.get("before_id") });
      if (isFailure(page)) throw new Error(page.detail);
      return page;
    });
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(models.map(({ id }) => id));
  });

  test("has tokens counted", async () => {
    const client = clientOf((path, _, body) => {
      expect(path).toBe("/v1/messages/count_tokens");
      const read = readCountTokensRequest(body);
      if (isFailure(read)) throw new Error(read.detail);
      return countTokensBody(read.promptTokensEstimate);
    });
    const counted = await client.messages.countTokens({ model: "m", messages: [{ role: "user", content: "word ".repeat(400) }] });
    expect(counted.input_tokens).toBeGreaterThan(400);
    expect(counted.input_tokens).toBeLessThan(700);
  });
});
