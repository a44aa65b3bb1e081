import {
  argumentPieces,
  declaredFunctions,
  list,
  mistakeIn,
  serverSentEvents,
  words,
  type Json,
  type ScriptedRequest,
  type ScriptedTurn,
  type ScriptedWire,
} from "./wire.ts";

export const chatWire: ScriptedWire = {
  channel: {},
  contentType: serverSentEvents,
  read,
  whole: (turn, { model }) => ({
    ...head(model),
    object: "chat.completion",
    choices: [{ index: 0, message: messageOf(turn), finish_reason: finishOf(turn) }],
    usage,
  }),
  events: (turn, { model }) => [...chunks(turn, model).map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"],
};

const usage = { prompt_tokens: 1_000, completion_tokens: 20, total_tokens: 1_020 };

function head(model: string): Json {
  return { id: "chatcmpl-scripted", created: 1_700_000_000, model };
}

function read(body: Json): ScriptedRequest {
  const messages = list(body["messages"]);
  const mistake = mistakeIn(messages);
  if (mistake !== null) throw new Error(mistake);
  return {
    model: String(body["model"]),
    stream: body["stream"] === true,
    tools: declaredFunctions(body["tools"]),
    results: messages.filter(({ role }) => role === "tool").map(({ content }) => String(content)),
    thoughts: messages.filter(({ role }) => role === "assistant").map(({ reasoning_content: thought }) => thought as string | undefined),
  };
}

function messageOf({ thought, text, call }: ScriptedTurn): Json {
  const toolCall = call === null ? null : { id: call.id, type: "function", function: functionOf(call, JSON.stringify(call.arguments)) };
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...(thought === "" ? undefined : { reasoning_content: thought }),
    ...(toolCall === null ? undefined : { tool_calls: [toolCall] }),
  };
}

function functionOf({ name }: { readonly name: string }, args: string): Json {
  return { name, arguments: args };
}

function finishOf({ call }: ScriptedTurn): string {
  return call === null ? "stop" : "tool_calls";
}

/** The arguments arrive in pieces, as from a real model. */
function chunks(turn: ScriptedTurn, model: string): readonly Json[] {
  const { thought, text, call } = turn;
  const chunk = (delta: Json, finish: string | null = null): Json => ({
    ...head(model),
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  const toolCall = (fields: Json): Json => chunk({ tool_calls: [{ index: 0, ...fields }] });
  return [
    chunk({ role: "assistant", content: "" }),
    ...words(thought).map((piece) => chunk({ reasoning_content: piece })),
    ...words(text).map((piece) => chunk({ content: piece })),
    ...(call === null ? [] : [toolCall({ id: call.id, type: "function", function: functionOf(call, "") })]),
    ...(call === null ? [] : argumentPieces(call).map((piece) => toolCall({ function: { arguments: piece } }))),
    chunk({}, finishOf(turn)),
    { ...head(model), object: "chat.completion.chunk", choices: [], usage },
  ];
}
