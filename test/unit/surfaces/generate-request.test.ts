import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import type { Conversation } from "../../../src/operations/conversation/conversation.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { modelListBody, readGenerateRequest, readTokenCount } from "../../../src/surfaces/gemini/index.ts";
import { numRuns } from "../../support/properties.ts";

const path = { model: "m", stream: false, listed: false };
const question = { role: "user", parts: [{ text: "Why?" }] };

function bytesOf(body: unknown): Uint8Array {
  return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
}

function read(body: unknown, change: Partial<typeof path> = {}): ChatRequest | Failure {
  return readGenerateRequest(bytesOf(body), { ...path, ...change });
}

function askOf(body: object, change: Partial<typeof path> = {}): ChatRequest {
  const ask = read({ contents: [question], ...body }, change);
  if (isFailure(ask)) throw new Error(ask.detail);
  return ask;
}

function conversationOf(body: object): Conversation {
  const ask = askOf(body);
  const conversation = ask.toConversation(ask);
  if (isFailure(conversation)) throw new Error(conversation.detail);
  return conversation;
}

function mistakeOf(body: unknown): Failure | null {
  const ask = read(body);
  if (isFailure(ask)) return ask;
  const conversation = ask.toConversation(ask);
  return isFailure(conversation) ? conversation : null;
}

describe("the facts of a request", () => {
  test("are those of its path and of its body", () => {
    expect(askOf({ generationConfig: { maxOutputTokens: 50 } }, { stream: true })).toMatchObject({
      surface: "gemini",
      model: "m",
      stream: true,
      maxTokens: 50,
      choices: 1,
      hostedTools: false,
      reasons: false,
      plainText: true,
    });
    expect(askOf({}, { listed: true }).surface).toBeNull();
  });

  test.each([
    [{ tools: [{ functionDeclarations: [{ name: "f" }] }] }, { plainText: false, hostedTools: false }],
    [{ tools: [{ googleSearch: {} }] }, { plainText: false, hostedTools: true }],
    [{ tools: [{ function_declarations: [] }, { code_execution: {} }] }, { hostedTools: true }],
    [{ generation_config: { max_output_tokens: 7 } }, { maxTokens: 7 }],
    [{ generationConfig: { maxOutputTokens: "1024", candidateCount: "2" } }, { maxTokens: 1024, choices: 2 }],
    [{ generationConfig: { candidateCount: 3 } }, { choices: 3, plainText: false }],
    [{ generationConfig: { responseMimeType: "application/json" } }, { plainText: false }],
    [{ generationConfig: { thinkingConfig: { thinkingLevel: "low" } } }, { reasons: true }],
    [{ generationConfig: { thinkingConfig: { thinkingBudget: 0 } } }, { reasons: false }],
    [{ generationConfig: { thinkingConfig: { thinkingBudget: "0" } } }, { reasons: false }],
    [{ generationConfig: { thinkingConfig: { thinkingBudget: "512" } } }, { reasons: true }],
    [{ model: "models/m" }, { model: "m" }],
  ])("%j", (body, facts) => {
    expect(askOf(body)).toMatchObject(facts);
  });

  test("take the largest of numbers that are repeated", () => {
    const body = `{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{"maxOutputTokens":5,"maxOutputTokens":9},"generation_config":{"max_output_tokens":7}}`;
    expect(read(body)).toMatchObject({ maxTokens: 9 });
  });

  test("count an image as an image, not as text", () => {
    const data = "A".repeat(400_000);
    const image = { role: "user", parts: [{ inlineData: { mimeType: "image/png", data } }] };
    expect(askOf({ contents: [question, image] }).promptTokensEstimate).toBeLessThan(2000);
    expect(countOf({ contents: [{ parts: [{ text: "a".repeat(400) }] }] })).toBeWithin(100, 120);
    expect(countOf({ generateContentRequest: { model: "models/m", contents: [question] } })).toBeWithin(5, 20);
    expect(readTokenCount(bytesOf({}), "m")).toMatchObject({ param: "contents" });
  });

  test.each([
    ["", null],
    ["[]", null],
    [{}, "contents"],
    [{ contents: [] }, "contents"],
    [{ contents: "hi" }, "contents"],
    [{ contents: [question], model: "other" }, "model"],
    [{ contents: [question], generationConfig: [] }, "generationConfig"],
    [{ contents: [question], generationConfig: { maxOutputTokens: "many" } }, "generationConfig.maxOutputTokens"],
    [{ contents: [question], generationConfig: { maxOutputTokens: -1 } }, "generationConfig.maxOutputTokens"],
    ...["", "-1", "1.5", "0x10", "1e999"].map(
      (maxOutputTokens) => [{ contents: [question], generationConfig: { maxOutputTokens } }, "generationConfig.maxOutputTokens"] as const,
    ),
    [{ contents: [question], tools: {} }, "tools"],
    [{ contents: [question], tools: Array.from({ length: 2000 }, () => ({})) }, "tools"],
    [
      { contents: [question], generationConfig: { stopSequences: Array.from({ length: 300 }, () => "a") } },
      "generationConfig.stopSequences",
    ],
  ])("%j is a mistake", (body, param) => {
    expect(read(body)).toMatchObject({ kind: "invalid_request", param });
  });
});

function countOf(body: object): number {
  const asked = readTokenCount(bytesOf(body), "m");
  if (isFailure(asked)) throw new Error(asked.detail);
  return asked.promptTokensEstimate;
}

describe("a request as a conversation", () => {
  test("has its turns, with calls and results paired by their ids, or by their names and order", () => {
    const contents = [
      { parts: [{ text: "look twice" }] },
      {
        role: "model",
        parts: [
          { text: "hm", thought: true },
          { text: "So:", thoughtSignature: "c2ln" },
          { functionCall: { name: "look", args: { at: 1 } }, thoughtSignature: "Y2FsbA==" },
          { functionCall: { name: "look", args: { at: 2 } }, thoughtSignature: "skip_thought_signature_validator" },
          { functionCall: { id: "f9", name: "listen" } },
        ],
      },
      {
        role: "user",
        parts: [
          { functionResponse: { id: "f9", name: "listen", response: { error: "deaf" } } },
          { functionResponse: { name: "look", response: { output: "a tree" } } },
          {
            functionResponse: { name: "look", response: { seen: [1] }, parts: [{ inlineData: { mimeType: "image/png", data: "AAAA" } }] },
          },
          { text: "go on" },
        ],
      },
    ];
    const { turns } = conversationOf({ contents, systemInstruction: { parts: [{ text: "be brief" }] } });
    expect(turns).toEqual([
      { role: "system", parts: [{ kind: "text", text: "be brief" }] },
      { role: "user", parts: [{ kind: "text", text: "look twice" }] },
      {
        role: "assistant",
        parts: [
          { kind: "reasoning", text: "hm", signature: null },
          { kind: "text", text: "So:", signature: { dialect: "gemini", data: "c2ln" } },
          { kind: "tool_call", id: "call_0", name: "look", arguments: '{"at":1}', signature: { dialect: "gemini", data: "Y2FsbA==" } },
          { kind: "tool_call", id: "call_1", name: "look", arguments: '{"at":2}' },
          { kind: "tool_call", id: "f9", name: "listen", arguments: "{}" },
        ],
      },
      {
        role: "tool",
        parts: [
          { kind: "tool_result", callId: "f9", content: [{ kind: "text", text: "deaf" }], isError: true },
          { kind: "tool_result", callId: "call_0", content: [{ kind: "text", text: "a tree" }], isError: false },
          {
            kind: "tool_result",
            callId: "call_1",
            content: [
              { kind: "text", text: '{"seen":[1]}' },
              { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
            ],
            isError: false,
          },
        ],
      },
      { role: "user", parts: [{ kind: "text", text: "go on" }] },
    ]);
  });

  const sealed = "sluice-v1.~~~???>>>";
  const standard = btoa(sealed);
  test.each([
    [sealed, { dialect: "sluice", data: sealed }],
    [standard, { dialect: "sluice", data: sealed }],
    [standard.replaceAll("+", "-").replaceAll("/", "_"), { dialect: "sluice", data: sealed }],
    [standard.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""), { dialect: "sluice", data: sealed }],
    [standard.replaceAll("=", ""), { dialect: "sluice", data: sealed }],
    [`${btoa("sluice-v1")}!damaged`, { dialect: "sluice", data: "" }],
    [btoa("signed"), { dialect: "gemini", data: btoa("signed") }],
  ])("knows whether the gateway sealed or the provider signed %s", (thoughtSignature, signature) => {
    expect(standard).toMatch(/[+].*[/].*=/);
    const contents = [question, { role: "model", parts: [{ text: "", thought: true, thoughtSignature }, { text: "so" }] }];
    expect(conversationOf({ contents }).turns[1]?.parts[0]).toEqual({ kind: "reasoning", text: "", signature });
  });

  test("has its media", () => {
    const parts = [
      { inline_data: { mime_type: "image/png", data: "AAAA" } },
      { inlineData: { mimeType: "audio/mpeg", data: "BBBB" } },
      { inlineData: { mimeType: "application/pdf", data: "CCCC", displayName: "a.pdf" } },
      { fileData: { mimeType: "image/jpeg", fileUri: "https://example.com/a.jpg" } },
      { fileData: { fileUri: "https://example.com/a.pdf" } },
    ];
    expect(conversationOf({ contents: [{ parts }] }).turns[0]?.parts).toEqual([
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
      { kind: "audio", format: "mp3", data: "BBBB" },
      { kind: "file", source: { kind: "data", mediaType: "application/pdf", data: "CCCC" }, name: "a.pdf" },
      { kind: "image", source: { kind: "url", url: "https://example.com/a.jpg" } },
      { kind: "file", source: { kind: "url", url: "https://example.com/a.pdf" }, name: null },
    ]);
  });

  test.each([
    ["-_-_", "+/+/"],
    ["_w==", "/w=="],
    ["_w", "/w=="],
    ["-_8", "+/8="],
    // No base64, or both alphabets: the upstream says so.
    ["-_!?", "-_!?"],
    ["-_+/", "-_+/"],
    ["+/8=", "+/8="],
    ["not base64", "not base64"],
  ])("has the bytes of media that are written %p in the alphabet of other APIs", (given, data) => {
    const image = { inlineData: { mimeType: "image/png", data: given } };
    const contents = [
      { parts: [image, { inlineData: { mimeType: "audio/wav", data: given } }] },
      { role: "model", parts: [{ functionCall: { name: "f" } }] },
      { parts: [{ functionResponse: { name: "f", parts: [image] } }] },
    ];
    const read = { kind: "image", source: { kind: "data", mediaType: "image/png", data } } as const;
    const { turns } = conversationOf({ contents });
    expect(turns[0]?.parts).toEqual([read, { kind: "audio", format: "wav", data }]);
    expect(turns[2]?.parts).toMatchObject([{ content: [read] }]);
  });

  test("has its tools, with schemas as everybody else writes them", () => {
    const parameters = {
      type: "OBJECT",
      properties: {
        at: { type: "STRING", nullable: true, enum: ["a"] },
        list: { type: "ARRAY", items: { type: "INTEGER" }, maxItems: "3" },
      },
      propertyOrdering: ["at"],
    };
    const { tools } = conversationOf({
      tools: [
        {
          functionDeclarations: [
            { name: "f", description: "F.", parameters },
            { name: "g", parametersJsonSchema: { type: "object" } },
            { name: "h" },
          ],
        },
      ],
    });
    expect(tools).toEqual([
      {
        name: "f",
        description: "F.",
        parameters: {
          type: "object",
          properties: {
            at: { type: ["string", "null"], enum: ["a", null] },
            list: { type: "array", items: { type: "integer" }, maxItems: 3 },
          },
        },
        strict: null,
      },
      { name: "g", description: null, parameters: { type: "object" }, strict: null },
      { name: "h", description: null, parameters: { type: "object", properties: {} }, strict: null },
    ]);
  });

  test.each([
    [
      { any_of: [{ type: "STRING", min_length: "2" }, { type: "INTEGER" }], nullable: true, property_ordering: ["a"] },
      { anyOf: [{ type: "string", minLength: 2 }, { type: "integer" }, { type: "null" }] },
    ],
    [
      { type: "ARRAY", min_items: "1", max_items: 3, prefix_items: [{ type: "NUMBER", nullable: true }] },
      { type: "array", minItems: 1, maxItems: 3, prefixItems: [{ type: ["number", "null"] }] },
    ],
    [
      { type: "OBJECT", additional_properties: { type: "STRING", max_length: "9" } },
      { type: "object", additionalProperties: { type: "string", maxLength: 9 } },
    ],
    [{ additionalProperties: { anyOf: [{ type: "STRING" }] } }, { additionalProperties: { anyOf: [{ type: "string" }] } }],
    [{ additional_properties: false }, { additionalProperties: false }],
    // Names are no keywords, and of both spellings one is enough.
    [
      { properties: { min_items: { type: "STRING" }, any_of: { type: "STRING" } }, required: ["min_items"] },
      { properties: { min_items: { type: "string" }, any_of: { type: "string" } }, required: ["min_items"] },
    ],
    [
      { min_items: 1, minItems: 2, x_own: 3 },
      { minItems: 2, x_own: 3 },
    ],
    [{ minItems: null, min_items: 1 }, { minItems: 1 }],
  ])("understands the schema %j", (responseSchema, schema) => {
    const { outputFormat } = conversationOf({ generationConfig: { responseMimeType: "application/json", responseSchema } });
    expect(outputFormat).toMatchObject({ kind: "schema" });
    expect(outputFormat?.kind === "schema" && (outputFormat.schema as unknown)).toEqual(schema);
  });

  test.each([
    [{ mode: "AUTO" }, { kind: "auto" }],
    [{ mode: "NONE" }, { kind: "none" }],
    [{ mode: "ANY" }, { kind: "required" }],
    [
      { mode: "ANY", allowedFunctionNames: ["f"] },
      { kind: "named", name: "f" },
    ],
    [{ mode: "VALIDATED" }, { kind: "auto" }],
  ])("chooses tools by %j", (functionCallingConfig, choice) => {
    const tools = [{ functionDeclarations: [{ name: "f" }] }];
    expect(conversationOf({ tools, toolConfig: { functionCallingConfig } }).toolChoice as unknown).toEqual(choice);
  });

  test("has its settings, and reports what has no place", () => {
    const conversation = conversationOf({
      safetySettings: [{}],
      labels: { a: "b" },
      tools: [{ googleSearch: {} }],
      serviceTier: "flex",
      generationConfig: {
        temperature: 0.5,
        topP: 0.9,
        topK: 3,
        seed: 7,
        presencePenalty: 1,
        frequencyPenalty: 2,
        stopSequences: ["END"],
        maxOutputTokens: 10,
        responseMimeType: "application/json",
        responseJsonSchema: { type: "object" },
        thinkingConfig: { thinkingBudget: 2000, includeThoughts: true },
        responseModalities: ["TEXT"],
        mediaResolution: "MEDIA_RESOLUTION_LOW",
        candidateCount: 2,
      },
    });
    expect(conversation).toMatchObject({
      sampling: { temperature: 0.5, topP: 0.9, topK: 3, seed: 7, presencePenalty: 1, frequencyPenalty: 2 },
      stop: ["END"],
      maxOutputTokens: 10,
      serviceTier: "flex",
      outputFormat: { kind: "schema", schema: { type: "object" } },
      reasoning: { effort: null, budgetTokens: 2000, summary: "auto" },
      uncarried: ["safetySettings", "labels", "generationConfig.mediaResolution", "generationConfig.candidateCount", "tools.googleSearch"],
    });
  });

  test("has its numbers, also those that are written as strings", () => {
    const generationConfig = {
      ...{ temperature: "0.5", topP: "0.9", topK: "3", seed: "-7", presencePenalty: "1", maxOutputTokens: "10" },
      thinkingConfig: { thinkingBudget: "2000" },
    };
    expect(conversationOf({ generationConfig })).toMatchObject({
      sampling: { temperature: 0.5, topP: 0.9, topK: 3, seed: -7, presencePenalty: 1 },
      maxOutputTokens: 10,
      reasoning: { budgetTokens: 2000 },
    });
  });

  test.each([
    ["2147483647", 2_147_483_647],
    ["-2147483648", -2_147_483_648],
    ["1.5e3", 1500],
    ["9999999999", 9_999_999_999],
  ])("has the number that %s is, in any of the forms of JSON", (seed, number) => {
    expect(conversationOf({ generationConfig: { seed } })).toMatchObject({ sampling: { seed: number } });
    if (number > 0) expect(askOf({ generationConfig: { maxOutputTokens: seed } }).maxTokens).toBe(number);
  });

  test.each([
    [{ contents: [{ role: "robot", parts: [{ text: "a" }] }] }, "contents.0.role"],
    [{ contents: [{ parts: [{}] }] }, "contents.0.parts.0"],
    [{ contents: [{ parts: [1] }] }, "contents.0.parts.0"],
    [{ contents: [{ parts: [{ text: 1 }] }] }, "contents.0.parts.0.text"],
    [{ contents: [{ parts: [{ functionResponse: { name: "f", response: {} } }] }] }, "contents.0.parts.0.functionResponse"],
    [{ contents: [{ role: "model", parts: [{ functionCall: { args: {} } }] }] }, "contents.0.parts.0.functionCall.name"],
    [{ contents: [{ parts: [] }] }, "contents"],
    [{ contents: [question], generationConfig: { temperature: "hot" } }, "generationConfig.temperature"],
    [{ contents: [question], generationConfig: { temperature: "1e999" } }, "generationConfig.temperature"],
    [{ contents: [question], generationConfig: { seed: "0x7" } }, "generationConfig.seed"],
    [{ contents: [question], tools: [{ functionDeclarations: [{ name: "" }] }] }, "tools.0.functionDeclarations.0.name"],
  ])("%j is a mistake", (body, param) => {
    expect(mistakeOf(body)).toMatchObject({ kind: "invalid_request", param });
  });

  test("that refers to content stored at its provider goes to no other", () => {
    expect(mistakeOf({ contents: [question], cachedContent: "cachedContents/1" })).toMatchObject({
      kind: "unsupported",
      param: "cachedContent",
    });
  });

  test("never throws, whatever the body is", () => {
    const keys = fc.constantFrom(
      "contents",
      "parts",
      "role",
      "text",
      "functionCall",
      "functionResponse",
      "name",
      "args",
      "tools",
      "inlineData",
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        fc.jsonValue({ maxDepth: 1 }),
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.dictionary(keys, tie("tree")),
      ),
    }));
    fc.assert(
      fc.property(fc.array(tree, { maxLength: 3 }), fc.dictionary(keys, tree), (contents, others) => {
        expect(() => mistakeOf({ ...others, contents: [question, ...contents] })).not.toThrow();
      }),
      { numRuns: numRuns(75) },
    );
  });
});

test("a list of models has pages", () => {
  const ids = ["a", "b", "c"];
  const page = (pageSize: string | null, pageToken: string | null): unknown => {
    const body = modelListBody(ids, { pageSize, pageToken });
    return isFailure(body) ? body : (JSON.parse(new TextDecoder().decode(body)) as unknown);
  };
  expect(page("2", null)).toMatchObject({ models: [{ name: "models/a" }, { name: "models/b" }], nextPageToken: "b" });
  expect(page("2", "b")).toMatchObject({ models: [{ name: "models/c" }] });
  expect(page("2", "b")).not.toHaveProperty("nextPageToken");
  expect(page(null, "unknown")).toEqual({ models: [] });
  expect(page("0", null)).toMatchObject({ param: "pageSize" });
});
