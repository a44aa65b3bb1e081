import { describe, expect, test } from "bun:test";
import { emptyAnswer, EventSplitter, withEvent } from "../../../src/console/pages/playground/chat-stream.ts";
import { curlFor, curlForUpload } from "../../../src/console/pages/playground/code.ts";

const stream = [
  `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}`,
  `: a comment`,
  `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}`,
  `data: {"choices":[{"delta":{"content":"Grüße, "}}]}`,
  `data: {"choices":[{"delta":{"content":"<b>🌊</b>"},"finish_reason":"stop"}]}`,
  `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7}}`,
  `data: [DONE]`,
  "",
].join("\n\n");

describe("a streamed chat", () => {
  test("is read the same, wherever the network cuts it", () => {
    const bytes = new TextEncoder().encode(stream);
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const splitter = new EventSplitter();
      const events = [...splitter.push(bytes.subarray(0, cut)), ...splitter.push(bytes.subarray(cut))];
      expect(events.reduce(withEvent, emptyAnswer)).toEqual({
        text: "Grüße, <b>🌊</b>",
        reasoning: "hm",
        finish: "stop",
        promptTokens: 3,
        completionTokens: 7,
        error: null,
      });
    }
  });

  test("says what was wrong, and survives what is no event", () => {
    expect(withEvent(emptyAnswer, `{"error":{"message":"It broke off."}}`).error).toBe("It broke off.");
    expect(withEvent(emptyAnswer, "nonsense")).toEqual(emptyAnswer);
    expect(withEvent(emptyAnswer, "[1]")).toEqual(emptyAnswer);
    expect(withEvent(emptyAnswer, `{"choices":[]}`)).toEqual(emptyAnswer);
  });
});

test("code can be pasted into a shell, whatever was typed", () => {
  expect(curlFor("http://127.0.0.1:4400", "/v1/x", { a: "it's" })).toContain(String.raw`"it'\''s"`);
  const upload = curlForUpload("http://127.0.0.1:4400", "/v1/y", "my file's.wav", { model: "m", prompt: "$(rm)" });
  expect(upload).toContain("-F prompt='$(rm)'");
  expect(upload.endsWith(String.raw`-F file=@'my file'\''s.wav'`)).toBe(true);
});
