import { describe, expect, test } from "bun:test";
import { emptyAnswer, EventSplitter, withEvent } from "../../../src/console/pages/playground/chat-stream.ts";
import { chatCode, speechCode, transcriptionCode } from "../../../src/console/pages/playground/code.ts";

import { chatRequest, shownRequest } from "../../../src/console/pages/playground/chat-request.ts";
import { peaksOf, subtitlesOf } from "../../../src/console/pages/playground/subtitles.ts";
import { markdownBlocks } from "../../../src/console/core/markdown.ts";

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
        tools: [],
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
  const [chat] = chatCode("http://127.0.0.1:4400", { model: "it's", messages: [] });
  expect(chat?.text).toContain(String.raw`"it'\''s"`);
  const [upload] = transcriptionCode("http://127.0.0.1:4400", "my file's.wav", { model: "$(rm)", response_format: "text" });
  expect(upload?.text).toContain("-F model='$(rm)'");
  expect(upload?.text.endsWith(String.raw`-F file=@'my file'\''s.wav'`)).toBe(true);
});

describe("code", () => {
  const languages = (code: ReturnType<typeof chatCode>): readonly string[] => code.map(({ language }) => language);
  const all = ["curl", "Python", "JavaScript", "AI SDK"];
  const request = {
    model: "m",
    stream: true,
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: `"\n\\` },
    ],
  };
  const address = "http://127.0.0.1:4400";

  test("is shown in four languages for each operation", () => {
    expect(languages(chatCode(address, request))).toEqual(all);
    expect(languages(speechCode(address, { model: "m", input: "hi", voice: "v", response_format: "mp3" }))).toEqual(all);
    expect(languages(transcriptionCode(address, "a.wav", { model: "m", response_format: "json" }))).toEqual(all);
  });

  test("is left out where a client cannot make the same request", () => {
    expect(languages(chatCode(address, { ...request, tools: [] }))).toEqual(all.slice(0, 3));
    expect(languages(transcriptionCode(address, "a.wav", { model: "m", response_format: "srt" }))).toEqual(all.slice(0, 3));
  });

  test("writes the values of JSON as each language does, and none of them on several lines", () => {
    const odd = { ...request, tools: [{ strict: true, "a-b": null, c: [] }] };
    const [, python, script] = chatCode(address, odd);
    expect(python?.text).toContain(
      `    tools=[\n        {\n            "strict": True,\n            "a-b": None,\n            "c": [],\n        },\n    ],`,
    );
    expect(script?.text).toContain(`  tools: [\n    {\n      strict: true,\n      "a-b": null,\n      c: [],\n    },\n  ],`);
    for (const one of [python, script]) expect(one?.text).toContain(String.raw`"\"\n\\"`);
  });
});

describe("the form of a chat", () => {
  const form = { system: "", prompt: "hi", images: [], tools: "", schema: "" };

  test("becomes a request with images, tools and a schema", () => {
    expect(chatRequest("m", form)).toMatchObject({ model: "m", messages: [{ role: "user", content: "hi" }] });
    const full = chatRequest("m", {
      ...form,
      system: "be brief",
      images: [`data:image/png;base64,${"A".repeat(999)}`],
      tools: "[]",
      schema: `{"type":"object"}`,
    });
    expect(full).toMatchObject({
      messages: [{ role: "system" }, { content: [{ type: "text" }, { type: "image_url" }] }],
      tools: [],
      response_format: { type: "json_schema", json_schema: { schema: { type: "object" } } },
    });
    expect(JSON.stringify(shownRequest(full as Parameters<typeof shownRequest>[0])).length).toBeLessThan(500);
  });

  test("says which field is not JSON", () => {
    expect(chatRequest("m", { ...form, tools: "{}" })).toHaveProperty("mistake", expect.stringContaining("Tools"));
    expect(chatRequest("m", { ...form, tools: "[" })).toHaveProperty("mistake");
    expect(chatRequest("m", { ...form, schema: "[1]" })).toHaveProperty("mistake", expect.stringContaining("schema"));
  });
});

test("the pieces of calls of tools are joined, and there are not more than a page can show", () => {
  const piece = (index: number, name: string, input: string): string =>
    JSON.stringify({ choices: [{ delta: { tool_calls: [{ index, function: { name, arguments: input } }] } }] });
  const answer = [piece(0, "wea", ""), piece(1, "time", "{}"), piece(0, "ther", `{"a"`), piece(0, "", ":1}")].reduce(
    withEvent,
    emptyAnswer,
  );
  expect(answer.tools).toEqual([
    { name: "weather", input: `{"a":1}` },
    { name: "time", input: "{}" },
  ]);
  expect(withEvent(emptyAnswer, piece(1e9, "x", "")).tools.length).toBe(1);
  expect(withEvent(emptyAnswer, `{"choices":[{"delta":{"tool_calls":"x"}}]}`).tools).toEqual([]);
});

test("subtitles are made of each format that has times", () => {
  const cue = "00:00:01.500 --> 01:01:02.003\nHello";
  expect(subtitlesOf("vtt", `WEBVTT\n\n${cue}`)).toContain(cue);
  expect(subtitlesOf("srt", `1\r\n00:00:01,500 --> 01:01:02,003\r\nHello\r\n`)).toContain(cue);
  const segments = [{ start: 1.5, end: 3662.003, text: " Hello\n\n--> there" }, { start: "x" }, null];
  expect(subtitlesOf("verbose_json", JSON.stringify({ segments }))).toBe("WEBVTT\n\n00:00:01.500 --> 01:01:02.003\nHello → there\n");
  expect([subtitlesOf("verbose_json", "{"), subtitlesOf("verbose_json", "{}"), subtitlesOf("json", "{}")]).toEqual([null, null, null]);
});

test("a waveform has the loudest sample of each part", () => {
  expect(peaksOf(new Float32Array([0, 0.5, -1, 0.25, 3, 0]), 3)).toEqual([0.5, 1, 1]);
  expect(peaksOf(new Float32Array(0), 2)).toEqual([0, 0]);
});

test("Markdown becomes text, lists and code, and never a link or markup", () => {
  const text =
    "# Title\nSome **bold** and `code`, 2 * 3 * 4.\n\n1. one\n2. *two*\n\n```js\n<b>x</b>\n```\n[a](javascript:alert(1)) <script>";
  expect(markdownBlocks(text)).toEqual([
    { kind: "heading", spans: [{ kind: "plain", text: "Title" }] },
    {
      kind: "text",
      spans: [
        { kind: "plain", text: "Some " },
        { kind: "strong", text: "bold" },
        { kind: "plain", text: " and " },
        { kind: "code", text: "code" },
        { kind: "plain", text: ", 2 * 3 * 4." },
      ],
    },
    { kind: "list", ordered: true, items: [[{ kind: "plain", text: "one" }], [{ kind: "emphasis", text: "two" }]] },
    { kind: "code", text: "<b>x</b>" },
    { kind: "text", spans: [{ kind: "plain", text: "[a](javascript:alert(1)) <script>" }] },
  ]);
  expect(markdownBlocks("```\nnot finished")).toEqual([{ kind: "code", text: "not finished" }]);
});
