import { describe, expect, test } from "bun:test";
import { retryCostOf } from "../../../src/operations/call-request.ts";
import { readChatRequest, type ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";

const encode = (body: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(body));

function requestOf(read: ReturnType<typeof readChatRequest>): ChatRequest {
  if (isFailure(read)) throw new Error(read.detail);
  return read;
}

describe("the tools that another attempt would run again", () => {
  test("are those that the upstream gets with a chat request", () => {
    const body = { model: "m", messages: [{ role: "user", content: "hi" }], web_search_options: {} };
    expect(retryCostOf(requestOf(readChatRequest(encode(body)))).hostedTools).toBe(true);
  });

  test("are those of a request in another API as well", () => {
    const body = encode({ model: "m", input: "hi", tools: [{ type: "web_search" }] });
    expect(retryCostOf(requestOf(openaiResponses.parse(body))).hostedTools).toBe(true);
  });
});
