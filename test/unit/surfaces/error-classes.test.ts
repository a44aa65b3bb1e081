import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { errorEvent, errorResponse } from "../../../src/http/errors.ts";
import { ResponseHead } from "../../../src/net/server/http-response.ts";
import type { ErrorFormat } from "../../../src/operations/conversation/surface.ts";
import { failure, type Failure, type FailureKind } from "../../../src/operations/failure.ts";
import { chatSurface, generateAnswers, messagesSurface, responsesSurface } from "../../../src/surfaces/index.ts";
import { asResponse } from "../../support/http-answer.ts";

/** What an upstream can refuse, and what clients of each API are told: a status, and the class that their official client throws. */
interface Told {
  readonly refused: Failure;
  readonly status: number;
  readonly openai: keyof typeof OpenAI;
  /** The status where this API has one of its own. */
  readonly anthropic: readonly [status: number, type: string];
  readonly google: string;
}

const told = (
  kind: FailureKind,
  status: number,
  openai: Told["openai"],
  anthropic: Told["anthropic"],
  google: string,
  more = {},
): Told => ({
  ...{ refused: failure(kind, "refused", more), status, openai, anthropic, google },
});

const rows: readonly Told[] = [
  told("invalid_request", 400, "BadRequestError", [400, "invalid_request_error"], "INVALID_ARGUMENT", { status: 400 }),
  told("invalid_request", 422, "UnprocessableEntityError", [422, "invalid_request_error"], "INVALID_ARGUMENT", { status: 422 }),
  told("context_length", 400, "BadRequestError", [400, "invalid_request_error"], "INVALID_ARGUMENT", { status: 400 }),
  told("content_policy", 400, "BadRequestError", [400, "invalid_request_error"], "INVALID_ARGUMENT", { status: 400 }),
  told("unsupported", 400, "BadRequestError", [400, "invalid_request_error"], "INVALID_ARGUMENT", { status: 400 }),
  told("too_large", 413, "APIError", [413, "request_too_large"], "INVALID_ARGUMENT", { status: 413 }),
  told("key_revoked", 401, "AuthenticationError", [401, "authentication_error"], "UNAUTHENTICATED"),
  told("rate_limited", 429, "RateLimitError", [429, "rate_limit_error"], "RESOURCE_EXHAUSTED", { status: 429, retryAfterMs: 2000 }),
  // What is wrong with the gateway's own account there is no business of the client, who could not do anything about it.
  told("unauthorized", 502, "InternalServerError", [502, "api_error"], "UNAVAILABLE", { status: 401 }),
  told("unauthorized", 502, "InternalServerError", [502, "api_error"], "UNAVAILABLE", { status: 403 }),
  told("quota_exhausted", 502, "InternalServerError", [502, "api_error"], "UNAVAILABLE", { status: 402 }),
  told("model_missing", 502, "InternalServerError", [502, "api_error"], "UNAVAILABLE", { status: 404 }),
  told("model_missing", 404, "NotFoundError", [404, "not_found_error"], "NOT_FOUND", { status: 404, code: "model_not_found" }),
  told("overloaded", 502, "InternalServerError", [502, "api_error"], "UNAVAILABLE", { status: 500 }),
  told("overloaded", 503, "InternalServerError", [529, "overloaded_error"], "UNAVAILABLE", { status: 503 }),
  told("overloaded", 503, "InternalServerError", [529, "overloaded_error"], "UNAVAILABLE", { status: 529 }),
  told("timed_out", 504, "InternalServerError", [504, "timeout_error"], "DEADLINE_EXCEEDED", { status: 504 }),
  told("no_channel", 503, "InternalServerError", [529, "overloaded_error"], "UNAVAILABLE"),
  told("internal", 500, "InternalServerError", [500, "api_error"], "INTERNAL"),
];
const named = rows.map((row) => [`${row.refused.kind} (${row.refused.status ?? "our own"})`, row] as const);

function refusal({ refused }: Told, format: ErrorFormat): Response {
  return asResponse(errorResponse(refused, new ResponseHead("req_1"), refused.retryAfterMs, format));
}

/** A stream that ends with the error, after what came before it. */
function broken({ refused }: Told, format: ErrorFormat): Response {
  return new Response(errorEvent(refused, "req_1", format) as BodyInit, { headers: { "content-type": "text/event-stream" } });
}

function openai(response: Response): OpenAI {
  return new OpenAI({ apiKey: "k", baseURL: "http://gateway.test/v1", maxRetries: 0, fetch: async () => response });
}

function anthropic(response: Response): Anthropic {
  return new Anthropic({ apiKey: "k", baseURL: "http://gateway.test", maxRetries: 0, fetch: async () => response });
}

async function thrownBy(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => null,
    (error: unknown) => error,
  );
}

const message = { role: "user", content: "hi" } as const;

async function readAll(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

describe("a refusal of an upstream is thrown by the official client in its own class", () => {
  test.each(named)("%s: of chat completions and responses", async (_, row) => {
    const { refused, status } = row;
    for (const error of [
      await thrownBy(openai(refusal(row, chatSurface)).chat.completions.create({ model: "m", messages: [message] })),
      await thrownBy(openai(refusal(row, responsesSurface)).responses.create({ model: "m", input: "hi" })),
    ]) {
      expect(error).toBeInstanceOf(OpenAI[row.openai]);
      expect(error).toMatchObject({ status, message: `${status} ${refused.publicMessage}` });
      if (refused.retryAfterMs !== null) expect((error as InstanceType<typeof OpenAI.APIError>).headers?.get("retry-after")).toBe("2");
    }
  });

  test.each(named)("%s: of messages", async (_, row) => {
    const call = { model: "m", max_tokens: 9, messages: [message] };
    const error = await thrownBy(anthropic(refusal(row, messagesSurface)).messages.create(call));
    const [status, type] = row.anthropic;
    expect(error).toBeInstanceOf(Anthropic.APIError);
    expect(error).toMatchObject({ status, type, error: { type: "error", error: { type } } });
    expect(String(error)).toContain(row.refused.publicMessage);
  });

  test.each(named)("%s: as google.rpc.Status", async (_, row) => {
    const response = refusal(row, generateAnswers);
    expect(response.status).toBe(row.status);
    expect(await response.json()).toMatchObject({
      error: { code: row.status, status: row.google, message: row.refused.publicMessage },
    });
  });
});

describe("an error inside of a stream ends it for the official client", () => {
  test.each(named)("%s", async (_, row) => {
    const { refused } = row;
    const chat = openai(broken(row, chatSurface)).chat.completions.create({ model: "m", messages: [message], stream: true });
    expect(await thrownBy(chat.then(readAll))).toMatchObject({ message: expect.stringContaining(refused.publicMessage) });

    const failed: string[] = [];
    const responses = openai(broken(row, responsesSurface)).responses.stream({ model: "m", input: "hi" });
    responses.on("event", (event) => {
      if (event.type === "response.failed") failed.push(event.response.error?.message ?? "");
    });
    await thrownBy(responses.done());
    expect(failed).toEqual([refused.publicMessage]);

    const messages = anthropic(broken(row, messagesSurface)).messages.create({
      ...{ model: "m", max_tokens: 9, messages: [message], stream: true },
    });
    const error = await thrownBy(messages.then(readAll));
    expect(error).toBeInstanceOf(Anthropic.APIError);
    expect(String(error)).toContain(refused.publicMessage);
  });
});
