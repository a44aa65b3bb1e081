import {
  argumentPieces,
  declaredFunctions,
  list,
  mistakeIn,
  named,
  serverSentEvents,
  words,
  type Json,
  type ScriptedRequest,
  type ScriptedTurn,
  type ScriptedWire,
} from "./wire.ts";

/** A message of this API has a text, or calls with a plan for them: what is thought before a call is the plan, and no text goes with it. */
export const cohereWire: ScriptedWire = {
  channel: { provider: "cohere" },
  contentType: serverSentEvents,
  read,
  whole: (turn) => ({ id: "c-scripted", finish_reason: finishOf(turn), message: messageOf(turn), usage }),
  events: (turn) => eventsOf(turn).map(named),
};

const usage = { billed_units: { input_tokens: 1_000, output_tokens: 20 }, tokens: { input_tokens: 1_100, output_tokens: 25 } };

function finishOf({ call }: ScriptedTurn): string {
  return call === null ? "COMPLETE" : "TOOL_CALL";
}

function messageOf({ thought, text, call }: ScriptedTurn): Json {
  if (call === null) return { role: "assistant", content: [{ type: "text", text }] };
  const called = { name: call.name, arguments: JSON.stringify(call.arguments) };
  return { role: "assistant", tool_plan: thought, tool_calls: [{ id: call.id, type: "function", function: called }] };
}

function eventsOf(turn: ScriptedTurn): readonly (Json & { readonly type: string })[] {
  const { thought, text, call } = turn;
  const delta = (type: string, message: Json): Json & { readonly type: string } => ({ type, index: 0, delta: { message } });
  const said =
    call === null
      ? [
          delta("content-start", { content: { type: "text", text: "" } }),
          ...words(text).map((piece) => delta("content-delta", { content: { text: piece } })),
          { type: "content-end", index: 0 },
        ]
      : [
          ...words(thought).map((piece) => delta("tool-plan-delta", { tool_plan: piece })),
          delta("tool-call-start", { tool_calls: { id: call.id, type: "function", function: { name: call.name, arguments: "" } } }),
          ...argumentPieces(call).map((piece) => delta("tool-call-delta", { tool_calls: { function: { arguments: piece } } })),
          { type: "tool-call-end", index: 0 },
        ];
  return [
    { id: "c-scripted", type: "message-start", delta: { message: { role: "assistant" } } },
    ...said,
    { type: "message-end", delta: { finish_reason: finishOf(turn), usage } },
  ];
}

function read(body: Json): ScriptedRequest {
  const messages = list(body["messages"]);
  const mistake = mistakeIn(messages);
  if (mistake !== null) throw new Error(mistake);
  const answers = messages.filter(({ role }) => role === "assistant");
  if (answers.some(({ content, tool_calls }) => content !== undefined && tool_calls !== undefined)) {
    throw new Error("a message has a text beside its calls");
  }
  return {
    model: String(body["model"]),
    stream: body["stream"] === true,
    tools: declaredFunctions(body["tools"]),
    results: messages.filter(({ role }) => role === "tool").map(({ content }) => String(content)),
    thoughts: answers.map(({ tool_plan: plan }) => plan as string | undefined),
  };
}
