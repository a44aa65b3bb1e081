import { messageEvents, scriptedMessage, text, thinking, toolUse, type ScriptedBlock } from "../support/messages-script.ts";
import { functionCall, message, reasoning, response, responseEvents, type ScriptedItem } from "../support/responses-script.ts";
import type { DeclaredTool } from "./scripted-model.ts";

/** What the model thinks before each call. */
export const thought = "I have a tool for this.";

/** What a model says in one turn. */
export interface ScriptedTurn {
  readonly thought: string;
  readonly text: string;
  readonly call: { readonly id: string; readonly name: string; readonly arguments: Readonly<Record<string, unknown>> } | null;
}

/** What a request says, in whatever API. */
export interface ScriptedRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly tools: readonly DeclaredTool[];
  /** The results of tools, in order: each is one step of the task. */
  readonly results: readonly string[];
  /** The model's own thoughts that came back, one for each of its turns; undefined where none did. */
  readonly thoughts: readonly (string | undefined)[];
}

/** An API that an upstream speaks. */
export interface ScriptedWire {
  /** The settings of a channel to it. */
  readonly channel: Readonly<Record<string, unknown>>;
  read(body: Json, path: string): ScriptedRequest;
  whole(turn: ScriptedTurn, request: ScriptedRequest): unknown;
  /** The events of a stream, framed. */
  events(turn: ScriptedTurn, request: ScriptedRequest): readonly string[];
}

export type Json = Readonly<Record<string, unknown>>;

/** The base of the address ends with what the paths of the API begin with. */
export const wires: Readonly<Record<"openai" | "anthropic" | "openai-responses" | "gemini", ScriptedWire>> = {
  openai: {
    channel: {},
    read: readChat,
    whole: ({ text: content }, { model }) => ({
      ...chatHead(model),
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
      usage: chatUsage,
    }),
    events: (turn, { model }) => [...chatChunks(turn, model).map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"],
  },
  anthropic: {
    channel: { dialect: "anthropic", auth_header: "x-api-key" },
    read: readMessages,
    whole: (turn) => scriptedMessage(blocksOf(turn), messageId(turn)),
    events: (turn) => messageEvents(blocksOf(turn), messageId(turn)).map(named),
  },
  "openai-responses": {
    channel: { dialect: "openai-responses" },
    read: readResponses,
    whole: (turn) => response(itemsOf(turn)),
    events: (turn) => responseEvents(itemsOf(turn)).map(named),
  },
  gemini: {
    channel: { dialect: "gemini", auth_header: "x-goog-api-key" },
    read: readGenerate,
    whole: (turn, { model }) => generated(partsOf(turn), model, "STOP"),
    events: (turn, { model }) =>
      [...partsOf(turn).map((part) => generated([part], model)), generated([{ text: "" }], model, "STOP")].map(
        (chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`,
      ),
  },
};

function named(event: Json & { readonly type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

function list(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}

function object(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}

function declared(name: unknown, description: unknown, schema: unknown): DeclaredTool {
  const properties = object(object(schema)["properties"]) as DeclaredTool["properties"];
  return { name: String(name), description: typeof description === "string" ? description : "", properties };
}

const chatUsage = { prompt_tokens: 1_000, completion_tokens: 20, total_tokens: 1_020 };

function chatHead(model: string): Json {
  return { id: "chatcmpl-scripted", created: 1_700_000_000, model };
}

function readChat(body: Json): ScriptedRequest {
  const messages = list(body["messages"]);
  const mistake = chatMistake(messages);
  if (mistake !== null) throw new Error(mistake);
  return {
    model: String(body["model"]),
    stream: body["stream"] === true,
    tools: list(body["tools"]).map(({ function: tool }) => {
      const { name, description, parameters } = object(tool);
      return declared(name, description, parameters);
    }),
    results: messages.filter(({ role }) => role === "tool").map(({ content }) => String(content)),
    thoughts: messages.filter(({ role }) => role === "assistant").map(({ reasoning_content: thought }) => thought as string | undefined),
  };
}

/** What providers refuse, other than the one that the API comes from: other roles, and calls without a result or the other way round. */
function chatMistake(messages: readonly Json[]): string | null {
  const open = new Set<string>();
  for (const { role, tool_calls, tool_call_id } of messages) {
    if (!["system", "user", "assistant", "tool"].includes(String(role))) return `the role ${String(role)} is not known`;
    if (role === "tool" && !open.delete(String(tool_call_id))) return `nothing was called as ${String(tool_call_id)}`;
    if (role !== "tool" && open.size > 0) return `no results for ${[...open].join(", ")}`;
    for (const { id } of list(tool_calls)) open.add(String(id));
  }
  return open.size === 0 ? null : `no results for ${[...open].join(", ")}`;
}

/** The arguments arrive in pieces, as from a real model. */
function chatChunks({ thought, text: content, call }: ScriptedTurn, model: string): readonly Json[] {
  const chunk = (delta: Json, finish: string | null = null): Json => ({
    ...chatHead(model),
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const toolCall = (fields: Json): Json => chunk({ tool_calls: [{ index: 0, ...fields }] });
  const pieces = call === null ? [] : (JSON.stringify(call.arguments).match(/[^]{1,24}/g) ?? []);
  return [
    chunk({ role: "assistant", content: "" }),
    ...words(thought).map((piece) => chunk({ reasoning_content: piece })),
    ...words(content).map((piece) => chunk({ content: piece })),
    ...(call === null ? [] : [toolCall({ id: call.id, type: "function", function: { name: call.name, arguments: "" } })]),
    ...pieces.map((piece) => toolCall({ function: { arguments: piece } })),
    chunk({}, call === null ? "stop" : "tool_calls"),
    { ...chatHead(model), object: "chat.completion.chunk", choices: [], usage: chatUsage },
  ];
}

function words(value: string): readonly string[] {
  return value === "" ? [] : value.split(/(?<= )/);
}

/** Not a real one: whoever gets it back unchanged has returned what it was given. */
const signature = "c2lnbmF0dXJlLW9mLXRoZS1zY3JpcHQ=";

/** A client takes messages with the same id for one. */
function messageId({ call }: ScriptedTurn): Json {
  return { id: `msg_${call?.id ?? "last"}` };
}

function blocksOf({ thought, text: said, call }: ScriptedTurn): readonly ScriptedBlock[] {
  return [
    ...(thought === "" ? [] : [thinking(thought, signature)]),
    text(said),
    ...(call === null ? [] : [toolUse(call.id, call.name, call.arguments)]),
  ];
}

function readMessages(body: Json): ScriptedRequest {
  const messages = list(body["messages"]);
  const blocks = (role: string): readonly (readonly Json[])[] =>
    messages.filter((each) => each["role"] === role).map(({ content }) => list(content));
  const results = blocks("user")
    .flat()
    .filter(({ type }) => type === "tool_result");
  return {
    model: String(body["model"]),
    stream: body["stream"] === true,
    tools: list(body["tools"]).map(({ name, description, input_schema: schema }) => declared(name, description, schema)),
    results: results.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content))),
    thoughts: blocks("assistant").map((parts) => {
      const block = parts.find(({ type }) => type === "thinking");
      if (block !== undefined && block["signature"] !== signature) throw new Error("the signature of a thought was changed");
      return block === undefined ? undefined : String(block["thinking"]);
    }),
  };
}

function itemsOf({ thought, text: said, call }: ScriptedTurn): readonly ScriptedItem[] {
  return [
    ...(thought === "" ? [] : [reasoning(signature, thought)]),
    message(said),
    ...(call === null ? [] : [functionCall(call.id, call.name, JSON.stringify(call.arguments))]),
  ];
}

function readResponses(body: Json): ScriptedRequest {
  const items = list(body["input"]);
  const ofType = (...types: readonly string[]): readonly Json[] => items.filter(({ type }) => types.includes(String(type)));
  return {
    model: String(body["model"]),
    stream: body["stream"] === true,
    tools: list(body["tools"])
      .flatMap((tool) => (tool["type"] === "namespace" ? list(tool["tools"]) : [tool]))
      .map(({ name, description, parameters }) => declared(name, description, parameters)),
    results: ofType("function_call_output", "custom_tool_call_output").map(({ output }) =>
      typeof output === "string" ? output : JSON.stringify(output),
    ),
    thoughts: ofType("reasoning").map((item) => {
      if (item["encrypted_content"] !== signature) throw new Error("the encrypted reasoning was changed");
      return list(item["summary"])
        .map((part) => String(part["text"]))
        .join("");
    }),
  };
}

function partsOf({ thought, text: said, call }: ScriptedTurn): readonly Json[] {
  return [
    ...(thought === "" ? [] : [{ text: thought, thought: true }]),
    { text: said },
    ...(call === null ? [] : [{ functionCall: { id: call.id, name: call.name, args: call.arguments }, thoughtSignature: signature }]),
  ];
}

function generated(parts: readonly Json[], model: string, finishReason?: string): Json {
  const usageMetadata = { promptTokenCount: 1_000, candidatesTokenCount: 20, totalTokenCount: 1_020 };
  return {
    candidates: [{ index: 0, content: { role: "model", parts }, ...(finishReason === undefined ? undefined : { finishReason }) }],
    usageMetadata,
    modelVersion: model,
    responseId: "scripted",
  };
}

function readGenerate(body: Json, path: string): ScriptedRequest {
  const contents = list(body["contents"]);
  const parts = (role: string): readonly (readonly Json[])[] =>
    contents.filter((each) => each["role"] === role).map((each) => list(each["parts"]));
  const functions = list(body["tools"]).flatMap(({ functionDeclarations }) => list(functionDeclarations));
  return {
    model: /models\/([^:]+):/.exec(path)?.[1] ?? "",
    stream: path.includes(":streamGenerateContent"),
    tools: functions.map(({ name, description, parametersJsonSchema, parameters }) =>
      declared(name, description, parametersJsonSchema ?? parameters),
    ),
    results: parts("user")
      .flat()
      .filter(({ functionResponse }) => functionResponse !== undefined)
      .map(({ functionResponse }) => JSON.stringify(object(functionResponse)["response"])),
    // Thoughts are not returned in this API, only their signatures, on the calls that they led to.
    thoughts: parts("model").map((each) => {
      const called = each.find(({ functionCall: call }) => call !== undefined);
      return called?.["thoughtSignature"] === signature ? thought : undefined;
    }),
  };
}
