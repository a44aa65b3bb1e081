import { describe, expect, test } from "bun:test";
import { readChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { readResponsesRequest } from "../../../src/surfaces/openai-responses/request.ts";

const base64 = (bytes: number): string => "iVBOR/w0KGg+".repeat(bytes / 12);

function chatTokens(fields: object, write: (text: string) => string = (text) => text): number {
  const request = readChatRequest(Buffer.from(write(JSON.stringify({ model: "m", ...fields }))));
  if (isFailure(request)) throw new Error(request.detail);
  return request.promptTokensEstimate;
}

function responseTokens(fields: object): number {
  const request = readResponsesRequest(Buffer.from(JSON.stringify({ model: "m", ...fields })));
  if (isFailure(request)) throw new Error(request.detail);
  return request.promptTokensEstimate;
}

describe("the estimate of the prompt of a chat completion", () => {
  const user = (content: unknown): object => ({ messages: [{ role: "user", content }] });
  const image = (bytes: number): object => ({
    type: "image_url",
    image_url: { url: `data:image/png;base64,${base64(bytes)}`, detail: "high" },
  });

  test("has the messages, the tools and the schema of the answer in it", () => {
    const bare = chatTokens(user("hi"));
    expect(chatTokens(user("x".repeat(4000)))).toBeGreaterThan(990);
    const described = { description: "x".repeat(4000), name: "f", parameters: {} };
    expect(chatTokens({ ...user("hi"), tools: [{ type: "function", function: described }] })).toBeGreaterThan(bare + 990);
    expect(chatTokens({ ...user("hi"), functions: [described] })).toBeGreaterThan(bare + 990);
    const schema = { type: "json_schema", json_schema: { name: "a", schema: { description: "x".repeat(4000) } } };
    expect(chatTokens({ ...user("hi"), response_format: schema })).toBeGreaterThan(bare + 990);
  });

  test("does not take the bytes of images, files and recordings for text", () => {
    expect(chatTokens(user([{ type: "text", text: "What is this?" }, image(600_000)]))).toBeLessThan(2_000);
    expect(chatTokens(user([image(6_000), image(600_000), image(600_000)]))).toBeLessThan(5_100);
    expect(chatTokens(user([image(600_000)]), (text) => text.replaceAll("/", "\\/"))).toBeLessThan(2_000);
    const file = { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${base64(600_000)}` } };
    expect(chatTokens(user([file]))).toBeLessThan(20_000);
    const recording = { type: "input_audio", input_audio: { data: base64(600_000), format: "mp3" } };
    expect(chatTokens(user([recording]))).toBeLessThan(5_000);
  });

  test("takes text for text, whatever it looks like", () => {
    const like = `"image_url": {"url": "data:image/png;base64,${base64(400_000)}`;
    expect(chatTokens(user(base64(400_000)))).toBeGreaterThan(90_000);
    expect(chatTokens(user(`data:image/png;base64,${base64(400_000)}`))).toBeGreaterThan(90_000);
    expect(chatTokens(user([{ type: "text", text: like }]))).toBeGreaterThan(90_000);
  });
});

describe("the estimate of the input of a response", () => {
  const user = (content: unknown): object => ({ input: [{ role: "user", content }] });

  test("does not take the bytes of images and files for text", () => {
    expect(responseTokens(user([{ type: "input_image", image_url: `data:image/jpeg;base64,${base64(600_000)}` }]))).toBeLessThan(2_000);
    expect(responseTokens(user([{ type: "input_file", file_data: `data:application/pdf;base64,${base64(600_000)}` }]))).toBeLessThan(
      20_000,
    );
    expect(responseTokens({ input: base64(400_000), instructions: "x".repeat(4000) })).toBeGreaterThan(91_000);
  });
});
