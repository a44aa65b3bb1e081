import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { gemini } from "../../../src/dialects/gemini/gemini.ts";
import { generateUrl } from "../../../src/dialects/gemini/generate-request.ts";
import type { Conversation, ConversationTurn, Part, ReasoningRequest, Tool } from "../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { askFor, bodyFor, encodedFor, encodedRequest, newest, text } from "../../support/gemini.ts";
import { channel } from "../../support/plan-world.ts";
import { numRuns } from "../../support/properties.ts";

const older = "gemini-2.5-flash";
const oldest = "gemini-2.0-flash";

function contentsOf(turns: readonly ConversationTurn[], model = newest): unknown {
  return bodyFor({ turns }, model)["contents"];
}

const call = (id: string, name = "look", more: Partial<Extract<Part, { kind: "tool_call" }>> = {}): Part => ({
  kind: "tool_call",
  id,
  name,
  arguments: '{"at":1}',
  ...more,
});
const result = (callId: string, output: string, isError = false): Part => ({
  kind: "tool_result",
  callId,
  content: [{ kind: "text", text: output }],
  isError,
});
const own = (data: string) => ({ dialect: "gemini", data });
const schema = { type: "object", properties: { at: { type: "integer" } }, required: ["at"] };
const tool = (change: Partial<Tool> = {}): Tool => ({ name: "look", description: "Looks.", parameters: schema, strict: null, ...change });

describe("a conversation becomes a body of generateContent", () => {
  test("whose first instructions stand apart, and whose later ones stay at their place", () => {
    const turns: readonly ConversationTurn[] = [
      { role: "system", parts: [text("be brief")] },
      { role: "developer", parts: [text("be polite")] },
      { role: "user", parts: [text("hi")] },
      { role: "assistant", parts: [text("hello")] },
      { role: "system", parts: [text("now in French")] },
      { role: "user", parts: [text("again")] },
    ];
    expect(bodyFor({ turns })).toEqual({
      systemInstruction: { parts: [{ text: "be brief" }, { text: "be polite" }] },
      contents: [
        { role: "user", parts: [{ text: "hi" }] },
        { role: "model", parts: [{ text: "hello" }] },
        { role: "user", parts: [{ text: "<system>\nnow in French\n</system>" }] },
        { role: "user", parts: [{ text: "again" }] },
      ],
    });
  });

  test("which says its instructions to the model where there is nobody else to talk to, or no place for them", () => {
    const system: ConversationTurn = { role: "system", parts: [text("be brief")] };
    expect(bodyFor({ turns: [system] })).toEqual({ contents: [{ role: "user", parts: [{ text: "be brief" }] }] });
    expect(bodyFor({ turns: [system, { role: "user", parts: [text("hi")] }] }, "gemma-3-27b-it")["contents"]).toEqual([
      { role: "user", parts: [{ text: "be brief" }] },
      { role: "user", parts: [{ text: "hi" }] },
    ]);
  });

  test("with images, files and audio inline, or by their address", () => {
    const parts: readonly Part[] = [
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
      { kind: "image", source: { kind: "url", url: "https://example.com/a.jpg?x=1" } },
      { kind: "file", source: { kind: "url", url: "https://generativelanguage.googleapis.com/v1beta/files/abc" }, name: null },
      { kind: "file", source: { kind: "data", mediaType: "application/pdf", data: "BBBB" }, name: "a.pdf" },
      { kind: "file", source: { kind: "text", text: "a note" }, name: "n.txt" },
      { kind: "audio", format: "wav", data: "CCCC" },
    ];
    expect(contentsOf([{ role: "user", parts }])).toEqual([
      {
        role: "user",
        parts: [
          { inlineData: { mimeType: "image/png", data: "AAAA" } },
          { fileData: { mimeType: "image/jpeg", fileUri: "https://example.com/a.jpg?x=1" } },
          { fileData: { fileUri: "https://generativelanguage.googleapis.com/v1beta/files/abc" } },
          { inlineData: { mimeType: "application/pdf", data: "BBBB" } },
          { text: "n.txt:\n\na note" },
          { inlineData: { mimeType: "audio/wav", data: "CCCC" } },
        ],
      },
    ]);
  });

  test.each([
    ["http://example.com/a.png", newest],
    ["https://example.com/a.png", oldest],
  ])("but not with an image that the model does not fetch: %s for %s", (url, model) => {
    const turns: readonly ConversationTurn[] = [{ role: "user", parts: [{ kind: "image", source: { kind: "url", url } }] }];
    expect(encodedFor({ turns }, model)).toMatchObject({ kind: "unsupported" });
  });

  test("nor with a file that was uploaded to another provider", () => {
    const turns: readonly ConversationTurn[] = [{ role: "user", parts: [{ kind: "file", source: { kind: "id", id: "f1" }, name: null }] }];
    expect(encodedFor({ turns })).toMatchObject({ kind: "unsupported" });
  });

  test("whose calls and results follow one another, in one content each, and in the order of the calls", () => {
    const turns: readonly ConversationTurn[] = [
      { role: "user", parts: [text("go")] },
      { role: "assistant", parts: [text("I look.")] },
      { role: "assistant", parts: [call("a"), call("b", "listen", { arguments: "" })] },
      { role: "tool", parts: [result("b", "a bang")] },
      { role: "tool", parts: [result("a", '{"seen":true}')] },
    ];
    const expected = (ids: boolean) => [
      { role: "user", parts: [{ text: "go" }] },
      {
        role: "model",
        parts: [
          { text: "I look." },
          {
            functionCall: { ...(ids && { id: "a" }), name: "look", args: { at: 1 } },
            ...(ids && { thoughtSignature: "skip_thought_signature_validator" }),
          },
          { functionCall: { ...(ids && { id: "b" }), name: "listen", args: {} } },
        ],
      },
      {
        role: "user",
        parts: [
          { functionResponse: { ...(ids && { id: "a" }), name: "look", response: { seen: true } } },
          { functionResponse: { ...(ids && { id: "b" }), name: "listen", response: { output: "a bang" } } },
        ],
      },
    ];
    expect(contentsOf(turns)).toEqual(expected(true));
    expect(contentsOf(turns, older)).toEqual(expected(false));
  });

  test("whose results are objects, whatever the tool wrote", () => {
    const responses = ["[1]", "plain", '{"$ref":"#/a"}', "{broken"].map((output) => {
      const contents = contentsOf([{ role: "tool", parts: [result("a", output)] }]) as {
        parts: { functionResponse: { response: unknown } }[];
      }[];
      return contents[0]?.parts[0]?.functionResponse.response;
    });
    expect(responses).toEqual([{ output: "[1]" }, { output: "plain" }, { output: '{"$ref":"#/a"}' }, { output: "{broken" }]);
    expect(contentsOf([{ role: "tool", parts: [result("a", "no", true), result("a", "yes", true)] }])).toEqual([
      { role: "user", parts: [{ functionResponse: { id: "a", name: "unknown_tool", response: { error: "yes" } } }] },
    ]);
  });

  test.each([
    ['{"id":1234567890123456789}', { output: '{"id":1234567890123456789}' }],
    ['{"ids":[ -12345678901234567]}', { output: '{"ids":[ -12345678901234567]}' }],
    ['{"id":"1234567890123456789","at":1700000000000000}', { id: "1234567890123456789", at: 1_700_000_000_000_000 }],
  ])("whose results keep the digits of long numbers: %s", (output, response) => {
    const turns: ConversationTurn[] = [
      { role: "assistant", parts: [call("a")] },
      { role: "tool", parts: [result("a", output)] },
    ];
    expect(contentsOf(turns)).toMatchObject([{}, { parts: [{ functionResponse: { response } }] }]);
  });

  test("whose results have their images inside, or beside them where the model is older", () => {
    const image: Part = { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } };
    const turns: readonly ConversationTurn[] = [
      { role: "assistant", parts: [call("a")] },
      { role: "tool", parts: [{ kind: "tool_result", callId: "a", content: [image], isError: false }] },
    ];
    const inline = { inlineData: { mimeType: "image/png", data: "AAAA" } };
    expect((contentsOf(turns) as object[])[1]).toEqual({
      role: "user",
      parts: [{ functionResponse: { id: "a", name: "look", response: { output: "" }, parts: [inline] } }],
    });
    expect((contentsOf(turns, older) as object[])[1]).toEqual({
      role: "user",
      parts: [{ functionResponse: { name: "look", response: { output: "" } } }, inline],
    });
  });

  test("whose calls have arguments in an object, also where a client sent something else", () => {
    const turns: readonly ConversationTurn[] = [
      {
        role: "assistant",
        parts: [
          call("a", "look", { arguments: "[1]" }),
          call("b", "patch", { arguments: "*** Begin", custom: true }),
          call("c", "look", { arguments: "null" }),
        ],
      },
    ];
    expect(contentsOf(turns, older)).toEqual([
      {
        role: "model",
        parts: [
          { functionCall: { name: "look", args: { _raw: "[1]" } } },
          { functionCall: { name: "patch", args: { input: "*** Begin" } } },
          { functionCall: { name: "look", args: {} } },
        ],
      },
    ]);
  });
});

describe("a signature", () => {
  test("goes back as it came, on exactly the part that it came with", () => {
    const parts: readonly Part[] = [
      { kind: "reasoning", text: "hm", signature: own("c2lnMQ==") },
      { kind: "text", text: "Look:", signature: own("c2lnMg==") },
      call("a", "look", { signature: own("c2lnMw==") }),
      call("b"),
      { kind: "text", text: "", signature: own("c2lnNA==") },
    ];
    expect(contentsOf([{ role: "assistant", parts }])).toEqual([
      {
        role: "model",
        parts: [
          { text: "hm", thought: true, thoughtSignature: "c2lnMQ==" },
          { text: "Look:", thoughtSignature: "c2lnMg==" },
          { functionCall: { id: "a", name: "look", args: { at: 1 } }, thoughtSignature: "c2lnMw==" },
          { functionCall: { id: "b", name: "look", args: { at: 1 } } },
          { text: "", thoughtSignature: "c2lnNA==" },
        ],
      },
    ]);
  });

  test("of another provider is not sent, and the documented one stands in for it on the first call of a step only", () => {
    const foreign = { dialect: "another", data: "secret" };
    const turns: readonly ConversationTurn[] = [
      {
        role: "assistant",
        parts: [
          { kind: "reasoning", text: "hm", signature: foreign },
          { kind: "reasoning", text: "unsigned", signature: null },
          call("a", "look", { signature: foreign }),
          call("b"),
        ],
      },
      { role: "tool", parts: [result("a", "1"), result("b", "2")] },
      { role: "assistant", parts: [call("c")] },
    ];
    const json = JSON.stringify(contentsOf(turns));
    expect(json).not.toContain("secret");
    expect(json).not.toContain("hm");
    expect(json.split("skip_thought_signature_validator").length - 1).toBe(2);
    expect(JSON.stringify(contentsOf(turns, older))).not.toContain("skip_thought");
  });
});

describe("tools", () => {
  const turns: readonly ConversationTurn[] = [{ role: "user", parts: [text("go")] }];

  test("are declared with their schema as it is, or as older models take it", () => {
    const parameters = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: {
        mode: { const: "fast" },
        level: { enum: [1, 2] },
        where: { $ref: "#/$defs/place" },
        maybe: { type: ["string", "null"], pattern: "^a" },
        both: { oneOf: [{ type: "string" }, { type: "number" }] },
      },
      required: ["mode"],
      additionalProperties: false,
      $defs: { place: { type: "object", properties: { parent: { $ref: "#/$defs/place" } } } },
    };
    const { $schema: _, ...plain } = parameters;
    expect(bodyFor({ turns, tools: [tool({ parameters })] })["tools"]).toEqual([
      { functionDeclarations: [{ name: "look", description: "Looks.", parametersJsonSchema: plain }] },
    ]);
    expect(bodyFor({ turns, tools: [tool({ parameters })] }, oldest)["tools"]).toEqual([
      {
        functionDeclarations: [
          {
            name: "look",
            description: "Looks.",
            parameters: {
              type: "object",
              properties: {
                mode: { enum: ["fast"], type: "string" },
                level: { enum: ["1", "2"], type: "string" },
                where: { type: "object", properties: { parent: { type: "object" } } },
                maybe: { nullable: true, type: "string", pattern: "^a" },
                both: { anyOf: [{ type: "string" }, { type: "number" }] },
              },
              required: ["mode"],
            },
          },
        ],
      },
    ]);
  });

  test("without parameters have no schema, and those of free text have one of one string", () => {
    const tools = [
      tool({ name: "now", description: null, parameters: { type: "object", properties: {} } }),
      tool({ name: "patch", parameters: null, custom: { format: "lark" } }),
    ];
    expect(bodyFor({ turns, tools })["tools"]).toMatchObject([
      {
        functionDeclarations: [
          { name: "now" },
          {
            name: "patch",
            description: "Looks.\n\nThe input has to match this format:\nlark",
            parametersJsonSchema: { required: ["input"] },
          },
        ],
      },
    ]);
  });

  test("whose schema refers to itself in ever more ways are declared in bounded time", () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        `d${at}`,
        { type: "object", properties: { a: { $ref: `#/$defs/d${at + 1}` }, b: { $ref: `#/$defs/d${at + 1}` } } },
      ]),
    );
    const parameters = { type: "object", properties: { a: { $ref: "#/$defs/d0" } }, $defs };
    const encoded = encodedFor({ turns, tools: [tool({ parameters })] }, oldest);
    expect(isFailure(encoded)).toBe(false);
    expect(JSON.stringify(encoded).length).toBeLessThan(2_000_000);
  });

  test.each([
    [null, undefined],
    [{ kind: "auto" }, undefined],
    [{ kind: "none" }, { mode: "NONE" }],
    [{ kind: "required" }, { mode: "ANY" }],
    [
      { kind: "named", name: "look" },
      { mode: "ANY", allowedFunctionNames: ["look"] },
    ],
  ] as const)("are chosen as the client says: %p", (toolChoice, config) => {
    const body = bodyFor({ turns, tools: [tool()], toolChoice });
    expect(body["toolConfig"]).toEqual(config === undefined ? undefined : { functionCallingConfig: config });
  });

  test("that are strict are validated where the model is free to call one, and a forced choice wins", () => {
    const tools = [tool({ strict: true })];
    expect(bodyFor({ turns, tools })["toolConfig"]).toEqual({ functionCallingConfig: { mode: "VALIDATED" } });
    expect(bodyFor({ turns, tools, toolChoice: { kind: "required" } })["toolConfig"]).toEqual({ functionCallingConfig: { mode: "ANY" } });
  });
});

describe("the answer's form", () => {
  const turns: readonly ConversationTurn[] = [{ role: "user", parts: [text("go")] }];
  const format: Conversation["outputFormat"] = {
    kind: "schema",
    name: "n",
    description: null,
    strict: true,
    schema: { type: "object", properties: { a: { const: "x", minLength: 1, examples: ["x"] } }, required: ["a"] },
  };

  test("is a schema with what the API can enforce, and the rest is reported", () => {
    const encoded = encodedFor({ turns, outputFormat: format });
    expect(encoded).toMatchObject({
      body: {
        generationConfig: {
          responseMimeType: "application/json",
          responseJsonSchema: { type: "object", properties: { a: { enum: ["x"] } }, required: ["a"] },
        },
      },
      dropped: ["schema.minLength"],
    });
    expect(bodyFor({ turns, outputFormat: { kind: "json" } })["generationConfig"]).toEqual({ responseMimeType: "application/json" });
    expect(bodyFor({ turns, outputFormat: { kind: "text" } })["generationConfig"]).toBeUndefined();
  });

  test("goes together with tools on newer models only, and gives way to a forced call", () => {
    const tools = [tool({ strict: true })];
    expect(bodyFor({ turns, tools, outputFormat: format })["generationConfig"]).toHaveProperty("responseJsonSchema");
    expect(bodyFor({ turns, tools, outputFormat: format })["toolConfig"]).toBeUndefined();
    expect(encodedFor({ turns, tools, outputFormat: format }, older)).toMatchObject({ kind: "unsupported", param: "response_format" });
    const forced = encodedFor({ turns, tools, outputFormat: { kind: "json" }, toolChoice: { kind: "required" } });
    expect(forced).toMatchObject({ dropped: ["response_format"] });
  });

  test("has no log probabilities, which no answer of ours would show", () => {
    const { sampling } = askFor({}).toConversation(askFor({})) as Conversation;
    expect(encodedFor({ turns, sampling: { ...sampling, topLogprobs: 2 } })).toMatchObject({ kind: "unsupported", param: "logprobs" });
  });
});

test("sampling is carried where the model takes it, and reported where not", () => {
  const sampling = { temperature: 0.5, topP: 0.9, topK: 3, presencePenalty: 1, frequencyPenalty: 0.5, seed: 7, topLogprobs: null };
  const change: Partial<Conversation> = {
    turns: [{ role: "user", parts: [text("go")] }],
    sampling,
    maxOutputTokens: 0,
    stop: ["1", "2", "3", "4", "5", "6"],
    serviceTier: "flex",
    endUser: "u",
    promptCacheKey: "k",
    verbosity: "low",
    uncarried: ["metadata"],
  };
  expect(encodedFor(change)).toMatchObject({
    body: {
      generationConfig: { temperature: 0.5, topP: 0.9, topK: 3, seed: 7, maxOutputTokens: 1, stopSequences: ["1", "2", "3", "4", "5"] },
      serviceTier: "flex",
    },
    dropped: ["metadata", "presence_penalty", "frequency_penalty", "stop", "verbosity"],
  });
  expect(bodyFor(change, oldest)["generationConfig"]).toMatchObject({ presencePenalty: 1, frequencyPenalty: 0.5 });
});

describe("reasoning", () => {
  const asked = (change: Partial<ReasoningRequest>): ReasoningRequest => ({ effort: null, budgetTokens: null, summary: null, ...change });

  test.each([
    [newest, asked({ effort: "none" }), { thinkingLevel: "LOW" }],
    ["gemini-3-flash-preview", asked({ effort: "minimal" }), { thinkingLevel: "MINIMAL", includeThoughts: true }],
    ["gemini-3.7-flash", asked({ effort: "minimal" }), { thinkingLevel: "LOW", includeThoughts: true }],
    ["gemini-3.1-pro-preview", asked({ effort: "none" }), { thinkingLevel: "LOW" }],
    ["gemini-3-pro-preview", asked({ effort: "medium" }), { thinkingLevel: "HIGH", includeThoughts: true }],
    [newest, asked({ effort: "max", summary: "none" }), { thinkingLevel: "HIGH" }],
    [newest, asked({ budgetTokens: 10_000 }), { thinkingLevel: "MEDIUM", includeThoughts: true }],
    [newest, asked({ summary: "auto" }), { includeThoughts: true }],
    [older, asked({ effort: "none" }), { thinkingBudget: 0 }],
    [older, asked({ effort: "low" }), { thinkingBudget: 1024, includeThoughts: true }],
    [older, asked({ budgetTokens: 900_000 }), { thinkingBudget: 24_576, includeThoughts: true }],
    ["gemini-2.5-pro", asked({ effort: "none" }), { thinkingBudget: 128 }],
    ["gemini-2.5-flash-lite", asked({ budgetTokens: 10 }), { thinkingBudget: 512, includeThoughts: true }],
    [oldest, asked({ effort: "none" }), undefined],
  ] as const)("of %s for %p", (model, reasoning, config) => {
    const body = bodyFor({ turns: [{ role: "user", parts: [text("go")] }], reasoning }, model);
    expect((body["generationConfig"] as Record<string, unknown> | undefined)?.["thinkingConfig"]).toEqual(config);
  });

  test("is reported as left out where the model has none", () => {
    const encoded = encodedFor({ turns: [], reasoning: asked({ effort: "high" }) }, oldest);
    expect(encoded).toMatchObject({ dropped: ["reasoning"] });
  });
});

test("a conversation that goes on begins with the same contents", () => {
  const words = fc.string({ minLength: 1, maxLength: 8 });
  const part = fc.oneof(
    words.map(text),
    words.map((data): Part => ({ kind: "text", text: data, signature: own(data) })),
    words.map((value): Part => ({ kind: "reasoning", text: value, signature: own("s") })),
    words.map((value): Part => ({ kind: "image", source: { kind: "data", mediaType: "image/png", data: value } })),
  );
  const step = fc.oneof(
    fc.array(part, { minLength: 1, maxLength: 3 }).map((parts): readonly ConversationTurn[] => [{ role: "user", parts }]),
    fc
      .array(words, { minLength: 1, maxLength: 2 })
      .map((parts): readonly ConversationTurn[] => [{ role: "system", parts: parts.map(text) }]),
    // An answer is sent whole, with the results of all of its calls.
    fc
      .array(fc.uniqueArray(words, { maxLength: 3 }), { minLength: 1, maxLength: 1 })
      .map(([ids = []]): readonly ConversationTurn[] => [
        { role: "assistant", parts: [text("so"), ...ids.map((id) => call(id))] },
        ...ids.toReversed().map((id): ConversationTurn => ({ role: "tool", parts: [result(id, "done")] })),
        { role: "user", parts: [text("next")] },
      ]),
  );
  fc.assert(
    fc.property(fc.array(step, { minLength: 2, maxLength: 8 }), fc.constantFrom(newest, older), (steps, model) => {
      const first: ConversationTurn = { role: "user", parts: [text("hi")] };
      const shorter = bodyFor({ turns: [first, ...steps.slice(0, -1).flat()], tools: [tool()] }, model);
      const longer = bodyFor({ turns: [first, ...steps.flat()], tools: [tool()] }, model);
      const { contents, ...fixed } = shorter;
      const { contents: more, ...alsoFixed } = longer;
      expect(alsoFixed).toEqual(fixed);
      const open = JSON.stringify(contents).slice(0, -1);
      expect(JSON.stringify(more).startsWith(open)).toBe(true);
    }),
    { numRuns: numRuns(200) },
  );
});

describe("a request", () => {
  const { address } = channel("a");

  test.each([
    [false, "", "https://h/v1beta/models/gemini-9-flash:generateContent"],
    [true, "", "https://h/v1beta/models/gemini-9-flash:streamGenerateContent?alt=sse"],
    [true, "?x=1", "https://h/v1beta/models/gemini-9-flash:streamGenerateContent?x=1&alt=sse"],
  ])("goes to the method of its model (streamed: %p%s)", (stream, query, url) => {
    expect(generateUrl({ ...address, baseUrl: "https://h/v1beta", query }, "models/gemini-9-flash", stream)).toBe(url);
    expect(generateUrl({ ...address, baseUrl: "https://h", query: "" }, "a/b?c", false)).toBe("https://h/models/a%2Fb%3Fc:generateContent");
  });

  test("of a client that speaks the same API keeps its bytes, with the tokens bounded and without what others signed", () => {
    const body = {
      contents: [
        { role: "user", parts: [{ text: "hi" }] },
        {
          role: "model",
          parts: [
            { functionCall: { name: "a" }, thoughtSignature: "sluice-v1.abc" },
            { text: "x", thoughtSignature: "sluice-v1.def" },
            { functionCall: { name: "b" }, thoughtSignature: "b3du" },
            { functionCall: { name: "c" }, thoughtSignature: btoa("sluice-v1.ghi") },
            { text: "y", thought_signature: btoa("sluice-v1.jkl") },
          ],
        },
      ],
      safetySettings: [{ category: "X", threshold: "OFF" }],
      generationConfig: { maxOutputTokens: 500, unknownField: 1 },
    };
    const sent = encodedRequest(askFor({}, {}, body), newest, 100);
    expect(sent).toMatchObject({ translated: false, clampedTo: 100 });
    const expected = JSON.stringify(body)
      .replace("500", "100")
      .replace("sluice-v1.abc", "skip_thought_signature_validator")
      .replace("sluice-v1.def", "")
      .replace(btoa("sluice-v1.ghi"), "skip_thought_signature_validator")
      .replace(btoa("sluice-v1.jkl"), "");
    expect(new TextDecoder().decode(sent.request.body as Uint8Array)).toBe(expected);
    for (const maxOutputTokens of [5, "5"]) {
      const untouched = encodedRequest(askFor({}, {}, { contents: [], generationConfig: { maxOutputTokens } }), newest, 100);
      expect(untouched.clampedTo).toBeNull();
    }
    const text = encodedRequest(askFor({}, {}, { contents: [], generationConfig: { maxOutputTokens: "500" } }), newest, 100);
    expect(text.clampedTo).toBe(100);
    expect(new TextDecoder().decode(text.request.body as Uint8Array)).toContain('"generationConfig":{"maxOutputTokens":100}');
  });

  test.each(["sluice-v1.abc", btoa("sluice-v1.abc")])("leaves the sealed %s out wherever it stands", (thoughtSignature) => {
    for (let characters = 4000; characters < 4130; characters++) {
      const media = { inlineData: { mimeType: "image/png", data: "A".repeat(characters) } };
      const contents = [{ role: "model", parts: [media, { text: '"'.repeat(characters % 7), thoughtSignature }] }];
      const { body } = encodedRequest(askFor({}, {}, { contents }), newest).request;
      expect(new TextDecoder().decode(body as Uint8Array)).toEndWith('"thoughtSignature":""}]}]}');
    }
  });

  test("asks for a tier of service where there are tiers", () => {
    const bodyAt = (chatPath: string): string => {
      const at = { ...channel("a"), address: { ...address, chatPath } };
      const target = { channel: at, model: newest, ceiling: null, meterStream: true, forwarded: {} };
      const encoded = gemini.chat?.encode(askFor({}, { serviceTier: "flex" }), target);
      if (encoded === undefined || isFailure(encoded)) throw new Error("it cannot be encoded");
      return `${new TextDecoder().decode(encoded.request.body as Uint8Array)} ${encoded.dropped?.join(",")}`;
    };
    expect(bodyAt("/models/{model}:generateContent")).toContain('"serviceTier":"flex"');
    expect(bodyAt("/publishers/p/models/{model}:generateContent")).toEndWith(" service_tier");
  });

  test("for several answers goes to a channel that gives them", () => {
    expect(() => encodedRequest(askFor({ choices: 2 }))).toThrow("one choice");
  });
});
