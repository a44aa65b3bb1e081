import { describe, expect, test } from "bun:test";
import { anthropic } from "../../../src/dialects/anthropic/anthropic.ts";
import { messagesUrl, bedrockHost, ownHost, vertexHost } from "../../../src/dialects/anthropic/hosts.ts";
import type { Address } from "../../../src/channels/channel.ts";
import type { Failure } from "../../../src/operations/failure.ts";
import { channel } from "../../support/plan-world.ts";

function explained(status: number, type: string, message: string, headers: Readonly<Record<string, string>> = {}, more = {}): Failure {
  const body = JSON.stringify({ type: "error", error: { type, message, ...more }, request_id: "req_1" });
  return anthropic.chat!.explain({ status, header: (name) => headers[name] ?? null, body });
}

describe("an error of the Messages API", () => {
  test.each([
    [400, "invalid_request_error", "messages: at least one message is required", "invalid_request"],
    [400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", "context_length"],
    [400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000", "context_length"],
    [400, "invalid_request_error", "max_tokens: 300000 > 128000, which is the maximum allowed number of output tokens", "ceiling"],
    [400, "invalid_request_error", "Your credit balance is too low to access the API. Please go to Plans & Billing.", "quota_exhausted"],
    [400, "invalid_request_error", "You have reached your specified API usage limits.", "quota_exhausted"],
    [400, "invalid_request_error", "This organization has been disabled.", "unauthorized"],
    [400, "invalid_request_error", "role 'system' is not supported on this model", "unsupported"],
    [400, "invalid_request_error", "This model does not support assistant message prefill.", "unsupported"],
    [400, "invalid_request_error", "Unexpected value(s) `x-2020-01-01` for the `anthropic-beta` header.", "unsupported"],
    [400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block", "unsupported"],
    [400, "invalid_request_error", "messages.1.content.0: Invalid `text` in block", "invalid_request"],
    [400, "invalid_request_error", "Output blocked by content filtering policy", "content_policy"],
    [401, "authentication_error", "invalid x-api-key", "unauthorized"],
    [402, "billing_error", "There is an issue with your billing.", "quota_exhausted"],
    [403, "permission_error", "Your API key does not have permission to use the specified resource.", "unauthorized"],
    [404, "not_found_error", "model: claude-nine", "model_missing"],
    [409, "conflict_error", "The request conflicts with another one.", "overloaded"],
    [413, "request_too_large", "Request exceeds the maximum allowed number of bytes", "too_large"],
    [429, "rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute", "rate_limited"],
    [500, "api_error", "Internal server error", "overloaded"],
    [504, "timeout_error", "Request timed out", "timed_out"],
    [529, "overloaded_error", "Overloaded", "overloaded"],
  ] as const)("%d %s: %s is %s", (status, type, message, kind) => {
    expect(explained(status, type, message).kind).toBe(kind);
  });

  test("says how long to wait, in the usual header or in those of its limits", () => {
    const at = { date: "Tue, 17 Nov 2026 02:00:00 GMT" };
    const limited = (headers: Readonly<Record<string, string>>): number | null =>
      explained(429, "rate_limit_error", "Slow down.", { ...at, ...headers }).retryAfterMs;
    expect(limited({ "retry-after": "7" })).toBe(7000);
    const resets = {
      "anthropic-ratelimit-requests-remaining": "10",
      "anthropic-ratelimit-requests-reset": "2026-11-17T02:00:01Z",
      "anthropic-ratelimit-input-tokens-remaining": "0",
      "anthropic-ratelimit-input-tokens-reset": "2026-11-17T02:00:30Z",
    };
    expect(limited(resets)).toBe(30_000);
  });

  test("that the month's money is spent is no matter of waiting", () => {
    const spent = explained(429, "rate_limit_error", "Limit reached.", {}, { details: { error_code: "enforced_spend_limit_reached" } });
    expect(spent.kind).toBe("quota_exhausted");
  });
});

describe("the address of a request", () => {
  const address = (baseUrl: string, chatPath = "/v1/messages"): Address => ({ ...channel("a").address, baseUrl, chatPath, query: "" });

  test("is the same whether or not the configured one ends with the version", () => {
    for (const base of ["https://api.example.com", "https://api.example.com/v1"]) {
      expect(messagesUrl(ownHost, address(base), "m", true)).toBe("https://api.example.com/v1/messages");
    }
    expect(messagesUrl(ownHost, address("https://res.example.com/anthropic"), "m", true)).toBe(
      "https://res.example.com/anthropic/v1/messages",
    );
  });

  test("names the model and the stream on hosts that have them there", () => {
    const vertex = address("https://v.example.com/v1/projects/p/locations/global", "/publishers/anthropic/models/{model}:rawPredict");
    const base = "https://v.example.com/v1/projects/p/locations/global/publishers/anthropic/models/";
    expect(messagesUrl(vertexHost, vertex, "claude-x@2026", false)).toBe(`${base}claude-x%402026:rawPredict`);
    expect(messagesUrl(vertexHost, vertex, "claude-x", true)).toBe(`${base}claude-x:streamRawPredict`);
    const bedrock = address("https://b.example.com", "/model/{model}/invoke");
    expect(messagesUrl(bedrockHost(ownHost.reader), bedrock, "us.anthropic.claude-x-v1:0", true)).toBe(
      "https://b.example.com/model/us.anthropic.claude-x-v1%3A0/invoke-with-response-stream",
    );
  });
});
