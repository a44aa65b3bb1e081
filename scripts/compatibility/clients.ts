import type { SurfaceName } from "../../src/operations/conversation/conversation.ts";
import type { Finish } from "../../src/operations/conversation/answer-parts.ts";

/** What a test says to a model, and what must arrive there. */
export const words = {
  system: "SYSTEM-ONE",
  user: "USER-ONE",
  answer: "ANSWER-ONE",
  laterSystem: "SYSTEM-TWO",
  nextUser: "USER-TWO",
  result: "RESULT-ONE",
  otherResult: "RESULT-TWO",
  property: "CITY-PROPERTY",
} as const;

/** A picture of one pixel, and a document of one line. */
export const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const pdf = "JVBERi0xLjQKMSAwIG9iago8PC9UeXBlL0NhdGFsb2c+PgplbmRvYmoKdHJhaWxlcjw8L1Jvb3QgMSAwIFI+PgolJUVPRgo=";

export type RequestKind = "text" | "system" | "tools" | "toolImage" | "image" | "file" | "schema";

/** What a client makes of an answer, in words that all APIs have in common. */
export interface SeenAnswer {
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: unknown }[];
  readonly finish: Finish["reason"] | "unknown";
  readonly usage: ({ readonly input: number; readonly output: number } & UsageParts) | null;
}

/** The parts of usage that an API tells apart; one that it has no place for is absent. */
export interface UsageParts {
  readonly cached?: number;
  readonly written?: number;
  /** Of what was written to a cache, what is kept for an hour. */
  readonly writtenHour?: number;
  readonly reasoning?: number;
  readonly audioInput?: number;
  readonly audioOutput?: number;
}

type Json = Readonly<Record<string, unknown>>;

/** A client of one API, reduced to what it sends and reads. */
export interface TestClient {
  /** Null where its API has no way to say it. */
  ask(kind: RequestKind): Json | null;
  /** The request after an answer that called a tool: the client sends back what it got. */
  next(request: Json, answer: Json): Json;
  /** The events of a stream as the answer that they add up to; null where the stream did not say that it is complete. */
  joined(events: readonly Json[]): Json | null;
  seen(answer: Json): SeenAnswer;
  /** The message of an error, in a body or in the last event of a stream; null where it is no error of this API. */
  failed(error: Json): string | null;
}

const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const toolNames = ["read_file", "list_files"] as const;
const schema = {
  type: "object",
  properties: { [words.property]: { type: "string" } },
  required: [words.property],
  additionalProperties: false,
};

const chat: TestClient = {
  ask: (kind) => {
    const tools = toolNames.map((name) => ({ type: "function", function: { name, description: `Does ${name}.`, parameters } }));
    const base = { model: "m", max_completion_tokens: 1000 };
    const question = (content: unknown): Json => ({ ...base, messages: [{ role: "user", content }] });
    switch (kind) {
      case "text":
        return { ...base, messages: [system(words.system), user(words.user)] };
      case "system":
        return {
          ...base,
          messages: [
            ...[system(words.system), user(words.user), { role: "assistant", content: words.answer }],
            ...[system(words.laterSystem), user(words.nextUser)],
          ],
        };
      case "tools": {
        const called = toolNames.map((name, at) => ({
          id: `call_${at}`,
          type: "function",
          function: { name, arguments: `{"path":"${name}.txt"}` },
        }));
        const results = [words.result, words.otherResult].map((content, at) => ({ role: "tool", tool_call_id: `call_${at}`, content }));
        return { ...base, tools, messages: [user(words.user), { role: "assistant", content: null, tool_calls: called }, ...results] };
      }
      case "toolImage":
        return null;
      case "image":
        return question([
          { type: "text", text: words.user },
          { type: "image_url", image_url: { url: `data:image/png;base64,${png}` } },
        ]);
      case "file":
        return question([
          { type: "text", text: words.user },
          { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${pdf}` } },
        ]);
      case "schema":
        return {
          ...question(words.user),
          response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
        };
    }
  },
  next: (request, answer) => {
    const message = objectOf(listOf(answer["choices"])[0])["message"];
    const results = listOf(objectOf(message)["tool_calls"]).map((call) => ({
      ...{ role: "tool", tool_call_id: objectOf(call)["id"], content: words.result },
    }));
    return { ...request, messages: [...listOf(request["messages"]), message, ...results] };
  },
  joined: (events) => {
    const message: Record<string, unknown> = { role: "assistant", content: null };
    const calls = new Map<unknown, Record<string, unknown>>();
    let finish: unknown = null;
    let usage: unknown = null;
    for (const event of events) {
      usage = event["usage"] ?? usage;
      const choice = objectOf(listOf(event["choices"])[0]);
      finish = choice["finish_reason"] ?? finish;
      for (const [key, value] of Object.entries(objectOf(choice["delta"]))) {
        if (key === "tool_calls") for (const piece of listOf(value)) joinCall(calls, objectOf(piece));
        else if (Array.isArray(value)) message[key] = [...listOf(message[key]), ...(value as unknown[])];
        else if (typeof value === "string" && key !== "role") message[key] = `${textOf(message[key])}${value}`;
      }
    }
    if (finish === null) return null;
    const toolCalls = calls.size === 0 ? undefined : { tool_calls: [...calls.values()] };
    return { choices: [{ message: { ...message, ...toolCalls }, finish_reason: finish }], usage };
  },
  seen: (answer) => {
    const choice = objectOf(listOf(answer["choices"])[0]);
    const message = objectOf(choice["message"]);
    const usage = objectOf(answer["usage"]);
    return {
      text: textOf(message["content"]),
      calls: listOf(message["tool_calls"]).map((call) => {
        const called = objectOf(objectOf(call)["function"]);
        return { id: textOf(objectOf(call)["id"]), name: textOf(called["name"]), arguments: parsed(called["arguments"]) };
      }),
      finish: (choice["finish_reason"] as Finish["reason"] | undefined) ?? "unknown",
      usage: figuresOf(usage["prompt_tokens"], usage["completion_tokens"], {
        cached: objectOf(usage["prompt_tokens_details"])["cached_tokens"],
        written: objectOf(usage["prompt_tokens_details"])["cache_write_tokens"],
        reasoning: objectOf(usage["completion_tokens_details"])["reasoning_tokens"],
        audioInput: objectOf(usage["prompt_tokens_details"])["audio_tokens"],
        audioOutput: objectOf(usage["completion_tokens_details"])["audio_tokens"],
      }),
    };
  },
  failed: errorMessage,
};

const messages: TestClient = {
  ask: (kind) => {
    const tools = toolNames.map((name) => ({ name, description: `Does ${name}.`, input_schema: parameters }));
    const base = { model: "m", max_tokens: 4000 };
    const text = { type: "text", text: words.user };
    const called = toolNames.map((name, at) => ({ type: "tool_use", id: `call_${at}`, name, input: { path: `${name}.txt` } }));
    const results = (first: unknown): unknown => [
      { type: "tool_result", tool_use_id: "call_0", content: first },
      { type: "tool_result", tool_use_id: "call_1", content: words.otherResult },
    ];
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: png } };
    switch (kind) {
      case "text":
        return { ...base, system: words.system, messages: [user(words.user)] };
      case "system":
        return {
          ...{ ...base, system: words.system },
          messages: [user(words.user), { role: "assistant", content: words.answer }, system(words.laterSystem), user(words.nextUser)],
        };
      case "tools":
        return { ...base, tools, messages: [user(words.user), { role: "assistant", content: called }, user(results(words.result))] };
      case "toolImage":
        return {
          ...{ ...base, tools },
          messages: [
            user(words.user),
            { role: "assistant", content: called },
            user(results([{ type: "text", text: words.result }, image])),
          ],
        };
      case "image":
        return { ...base, messages: [user([text, image])] };
      case "file":
        return {
          ...base,
          messages: [user([text, { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf } }])],
        };
      case "schema":
        return { ...base, messages: [user(words.user)], output_config: { format: { type: "json_schema", schema } } };
    }
  },
  next: (request, answer) => {
    const content = listOf(answer["content"]);
    const calls = content.filter((block) => objectOf(block)["type"] === "tool_use");
    const results = calls.map((block) => ({ type: "tool_result", tool_use_id: objectOf(block)["id"], content: words.result }));
    return { ...request, messages: [...listOf(request["messages"]), { role: "assistant", content }, user(results)] };
  },
  joined: (events) => {
    let message: Json = {};
    const content: Record<string, unknown>[] = [];
    let isComplete = false;
    for (const event of events) {
      const at = numberOf(event["index"]);
      if (event["type"] === "message_start") message = objectOf(event["message"]);
      else if (event["type"] === "content_block_start") content[at] = { ...objectOf(event["content_block"]) };
      else if (event["type"] === "content_block_delta") joinBlock(content[at]!, objectOf(event["delta"]));
      else if (event["type"] === "content_block_stop" && typeof content[at]!["json"] === "string") {
        const { json, ...block } = content[at]!;
        content[at] = { ...block, input: parsed(json) };
      } else if (event["type"] === "message_delta") {
        const usage = { ...objectOf(message["usage"]), ...objectOf(event["usage"]) };
        message = { ...message, ...objectOf(event["delta"]), usage };
      } else if (event["type"] === "message_stop") isComplete = true;
    }
    return isComplete ? { ...message, content } : null;
  },
  seen: (answer) => {
    const content = listOf(answer["content"]).map(objectOf);
    const usage = objectOf(answer["usage"]);
    const cached = numberOf(usage["cache_read_input_tokens"]);
    return {
      text: content.map((block) => (block["type"] === "text" ? textOf(block["text"]) : "")).join(""),
      calls: content.flatMap((block) =>
        block["type"] === "tool_use" ? [{ id: textOf(block["id"]), name: textOf(block["name"]), arguments: block["input"] }] : [],
      ),
      finish: stops[textOf(answer["stop_reason"])] ?? "unknown",
      usage:
        typeof usage["input_tokens"] !== "number"
          ? null
          : figuresOf(usage["input_tokens"] + cached + numberOf(usage["cache_creation_input_tokens"]), usage["output_tokens"], {
              cached,
              written: usage["cache_creation_input_tokens"],
              // The last event of a stream has no place for it.
              ...(usage["cache_creation"] == null
                ? undefined
                : { writtenHour: objectOf(usage["cache_creation"])["ephemeral_1h_input_tokens"] }),
              reasoning: objectOf(usage["output_tokens_details"])["thinking_tokens"],
            }),
    };
  },
  failed: (error) => (error["type"] === "error" && objectOf(error["error"])["type"] !== undefined ? errorMessage(error) : null),
};

const stops: Readonly<Record<string, Finish["reason"]>> = {
  ...{ end_turn: "stop", stop_sequence: "stop", max_tokens: "length", tool_use: "tool_calls", refusal: "content_filter" },
};

const responses: TestClient = {
  ask: (kind) => {
    const tools = toolNames.map((name) => ({ type: "function", name, description: `Does ${name}.`, parameters, strict: false }));
    const base = { model: "m", store: false, include: ["reasoning.encrypted_content"], max_output_tokens: 4000 };
    const text = { type: "input_text", text: words.user };
    const question = (...content: readonly unknown[]): Json => ({ ...base, input: [{ role: "user", content }] });
    const called = toolNames.map((name, at) => ({
      ...{ type: "function_call", call_id: `call_${at}`, name, arguments: `{"path":"${name}.txt"}` },
    }));
    const results = (first: unknown): readonly unknown[] => [
      { type: "function_call_output", call_id: "call_0", output: first },
      { type: "function_call_output", call_id: "call_1", output: words.otherResult },
    ];
    const image = { type: "input_image", image_url: `data:image/png;base64,${png}`, detail: "auto" };
    switch (kind) {
      case "text":
        return { ...base, instructions: words.system, input: words.user };
      case "system":
        return {
          ...{ ...base, instructions: words.system },
          input: [
            user(words.user),
            { role: "assistant", content: [{ type: "output_text", text: words.answer }] },
            ...[{ role: "developer", content: words.laterSystem }, user(words.nextUser)],
          ],
        };
      case "tools":
        return { ...base, tools, input: [user(words.user), ...called, ...results(words.result)] };
      case "toolImage":
        return { ...base, tools, input: [user(words.user), ...called, ...results([{ type: "input_text", text: words.result }, image])] };
      case "image":
        return question(text, image);
      case "file":
        return question(text, { type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${pdf}` });
      case "schema":
        return { ...question(text), text: { format: { type: "json_schema", name: "answer", schema, strict: true } } };
    }
  },
  next: (request, answer) => {
    const output = listOf(answer["output"]);
    const calls = output.filter((item) => objectOf(item)["type"] === "function_call");
    const results = calls.map((item) => ({ type: "function_call_output", call_id: objectOf(item)["call_id"], output: words.result }));
    const { input } = request;
    return { ...request, input: [...(typeof input === "string" ? [user(input)] : listOf(input)), ...output, ...results] };
  },
  joined: (events) => {
    const last = events.findLast(({ type }) => type === "response.completed" || type === "response.incomplete");
    return last === undefined ? null : objectOf(last["response"]);
  },
  seen: (answer) => {
    const output = listOf(answer["output"]).map(objectOf);
    const usage = objectOf(answer["usage"]);
    const calls = output.filter((item) => item["type"] === "function_call");
    const texts = output.flatMap((item) => (item["type"] === "message" ? listOf(item["content"]).map(objectOf) : []));
    const reason = objectOf(answer["incomplete_details"])["reason"];
    const ended = reason === "max_output_tokens" ? "length" : reason === "content_filter" ? "content_filter" : null;
    const refused = texts.some((part) => part["type"] === "refusal") ? "content_filter" : null;
    return {
      text: texts.map((part) => textOf(part["text"])).join(""),
      calls: calls.map((item) => ({ id: textOf(item["call_id"]), name: textOf(item["name"]), arguments: parsed(item["arguments"]) })),
      finish: ended ?? refused ?? (calls.length > 0 ? "tool_calls" : "stop"),
      usage: figuresOf(usage["input_tokens"], usage["output_tokens"], {
        cached: objectOf(usage["input_tokens_details"])["cached_tokens"],
        written: objectOf(usage["input_tokens_details"])["cache_write_tokens"],
        reasoning: objectOf(usage["output_tokens_details"])["reasoning_tokens"],
      }),
    };
  },
  failed: (error) => errorMessage(error["type"] === "response.failed" ? objectOf(error["response"]) : error),
};

const gemini: TestClient = {
  ask: (kind) => {
    const tools = [
      { functionDeclarations: toolNames.map((name) => ({ name, description: `Does ${name}.`, parametersJsonSchema: parameters })) },
    ];
    const base = { generationConfig: { maxOutputTokens: 4000 } };
    const says = (role: string, ...parts: readonly unknown[]): Json => ({ role, parts });
    const system = { systemInstruction: { parts: [{ text: words.system }] } };
    const text = { text: words.user };
    const called = toolNames.map((name, at) => ({ functionCall: { id: `call_${at}`, name, args: { path: `${name}.txt` } } }));
    const result = (at: number, output: string, more: object = {}): Json => ({
      functionResponse: { id: `call_${at}`, name: toolNames[at], response: { output }, ...more },
    });
    const image = { inlineData: { mimeType: "image/png", data: png } };
    switch (kind) {
      case "text":
        return { ...base, ...system, contents: [says("user", text)] };
      // Its only system message stands before all others.
      case "system":
        return null;
      case "tools":
        return {
          ...{ ...base, tools },
          contents: [says("user", text), says("model", ...called), says("user", result(0, words.result), result(1, words.otherResult))],
        };
      case "toolImage": {
        const results = [result(0, words.result, { parts: [image] }), result(1, words.otherResult)];
        return { ...base, tools, contents: [says("user", text), says("model", ...called), says("user", ...results)] };
      }
      case "image":
        return { ...base, contents: [says("user", text, image)] };
      case "file":
        return { ...base, contents: [says("user", text, { inlineData: { mimeType: "application/pdf", data: pdf } })] };
      case "schema":
        return {
          contents: [says("user", text)],
          generationConfig: { ...base.generationConfig, responseMimeType: "application/json", responseJsonSchema: schema },
        };
    }
  },
  next: (request, answer) => {
    const content = objectOf(objectOf(listOf(answer["candidates"])[0])["content"]);
    const results = listOf(content["parts"]).flatMap((part) => {
      const { functionCall } = objectOf(part);
      if (functionCall === undefined) return [];
      const { id, name } = objectOf(functionCall);
      return [{ functionResponse: { ...(id === undefined ? undefined : { id }), name, response: { output: words.result } } }];
    });
    return { ...request, contents: [...listOf(request["contents"]), content, { role: "user", parts: results }] };
  },
  joined: (events) => {
    const parts: unknown[] = [];
    let finishReason: unknown;
    let usageMetadata: unknown;
    for (const event of events) {
      const candidate = objectOf(listOf(event["candidates"])[0]);
      parts.push(...listOf(objectOf(candidate["content"])["parts"]));
      finishReason = candidate["finishReason"] ?? finishReason;
      usageMetadata = event["usageMetadata"] ?? usageMetadata;
    }
    return finishReason === undefined ? null : { candidates: [{ content: { role: "model", parts }, finishReason }], usageMetadata };
  },
  seen: (answer) => {
    const candidate = objectOf(listOf(answer["candidates"])[0]);
    const parts = listOf(objectOf(candidate["content"])["parts"]).map(objectOf);
    const usage = objectOf(answer["usageMetadata"]);
    const calls = parts.flatMap((part) => (part["functionCall"] === undefined ? [] : [objectOf(part["functionCall"])]));
    const finish = finishes[textOf(candidate["finishReason"])] ?? "unknown";
    return {
      text: parts.map((part) => (part["thought"] === true ? "" : textOf(part["text"]))).join(""),
      calls: calls.map((call, at) => ({ id: textOf(call["id"]) || `${at}`, name: textOf(call["name"]), arguments: call["args"] })),
      finish: finish === "stop" && calls.length > 0 ? "tool_calls" : finish,
      usage: figuresOf(usage["promptTokenCount"], numberOf(usage["candidatesTokenCount"]) + numberOf(usage["thoughtsTokenCount"]), {
        cached: usage["cachedContentTokenCount"],
        reasoning: usage["thoughtsTokenCount"],
        audioInput: soundIn(usage["promptTokensDetails"]),
        audioOutput: soundIn(usage["candidatesTokensDetails"]),
      }),
    };
  },
  failed: (error) => (typeof objectOf(error["error"])["status"] === "string" ? errorMessage(error) : null),
};

const finishes: Readonly<Record<string, Finish["reason"]>> = {
  ...{ STOP: "stop", MAX_TOKENS: "length", SAFETY: "content_filter", PROHIBITED_CONTENT: "content_filter" },
};

/** A surface without a client here is a hole in the table, and does not compile. */
export const clients: Readonly<Record<SurfaceName, TestClient>> = {
  "openai-chat": chat,
  "anthropic-messages": messages,
  "openai-responses": responses,
  gemini,
};

function system(content: string): Json {
  return { role: "system", content };
}

function user(content: unknown): Json {
  return { role: "user", content };
}

function joinCall(calls: Map<unknown, Record<string, unknown>>, piece: Json): void {
  const before = calls.get(piece["index"]);
  const called = objectOf(piece["function"]);
  if (before === undefined) {
    const { index, ...call } = piece;
    calls.set(index, { ...call, function: { ...called, arguments: textOf(called["arguments"]) } });
    return;
  }
  const sofar = objectOf(before["function"]);
  before["function"] = { ...sofar, arguments: textOf(sofar["arguments"]) + textOf(called["arguments"]) };
}

function joinBlock(block: Record<string, unknown>, delta: Json): void {
  for (const key of ["text", "thinking", "signature"]) {
    if (typeof delta[key] === "string") block[key] = `${textOf(block[key])}${delta[key]}`;
  }
  if (typeof delta["partial_json"] === "string") block["json"] = `${textOf(block["json"])}${delta["partial_json"]}`;
}

function parsed(json: unknown): unknown {
  return typeof json === "string" ? (JSON.parse(json === "" ? "{}" : json) as unknown) : json;
}

export function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Null where the answer has no usage. A part that is not told is none of it. */
function figuresOf(input: unknown, output: unknown, parts: { readonly [Part in keyof UsageParts]: unknown }): SeenAnswer["usage"] {
  const counted = Object.fromEntries(Object.entries(parts).map(([part, count]) => [part, numberOf(count)]));
  return typeof input === "number" ? { input, output: numberOf(output), ...counted } : null;
}

function soundIn(details: unknown): unknown {
  return listOf(details)
    .map(objectOf)
    .find(({ modality }) => modality === "AUDIO")?.["tokenCount"];
}

function errorMessage(body: Json): string | null {
  const { message } = objectOf(body["error"]);
  return typeof message === "string" ? message : null;
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
