import { awsEvent } from "../../support/event-stream.ts";
import {
  argumentPieces,
  declared,
  list,
  object,
  signature,
  words,
  type Json,
  type ScriptedRequest,
  type ScriptedTurn,
  type ScriptedWire,
} from "./wire.ts";

/** With a key: signatures have tests of their own. */
export const converseWire: ScriptedWire = {
  channel: { provider: "bedrock-converse", auth: "key" },
  contentType: "application/vnd.amazon.eventstream",
  read,
  whole: (turn) => ({ output: { message: { role: "assistant", content: blocksOf(turn) } }, stopReason: stopReasonOf(turn), usage }),
  events: (turn) => [
    awsEvent("messageStart", { role: "assistant" }),
    ...blocksOf(turn).flatMap((block, index) => blockEvents(block, index)),
    awsEvent("messageStop", { stopReason: stopReasonOf(turn) }),
    awsEvent("metadata", { usage, metrics: { latencyMs: 1 } }),
  ],
};

const usage = { inputTokens: 1_000, outputTokens: 20, totalTokens: 1_020 };

function stopReasonOf({ call }: ScriptedTurn): string {
  return call === null ? "end_turn" : "tool_use";
}

function blocksOf({ thought, text, call }: ScriptedTurn): readonly Json[] {
  return [
    ...(thought === "" ? [] : [{ reasoningContent: { reasoningText: { text: thought, signature } } }]),
    { text },
    ...(call === null ? [] : [{ toolUse: { toolUseId: call.id, name: call.name, input: call.arguments } }]),
  ];
}

function blockEvents({ reasoningContent, text, toolUse }: Json, index: number): readonly Uint8Array[] {
  const place = { contentBlockIndex: index };
  const delta = (value: Json): Uint8Array => awsEvent("contentBlockDelta", { ...place, delta: value });
  const stop = awsEvent("contentBlockStop", place);
  if (reasoningContent !== undefined) {
    const reasoned = object(object(reasoningContent)["reasoningText"]);
    const pieces = words(String(reasoned["text"])).map((piece) => ({ text: piece }));
    return [...[...pieces, { signature: reasoned["signature"] }].map((piece) => delta({ reasoningContent: piece })), stop];
  }
  if (toolUse === undefined) return [...words(String(text)).map((piece) => delta({ text: piece })), stop];
  const { input, ...begun } = object(toolUse);
  return [
    awsEvent("contentBlockStart", { ...place, start: { toolUse: begun } }),
    ...argumentPieces({ name: "", arguments: object(input) }).map((piece) => delta({ toolUse: { input: piece } })),
    stop,
  ];
}

function read(body: Json, path: string): ScriptedRequest {
  const messages = list(body["messages"]);
  const mistake = mistakeInBlocks(messages);
  if (mistake !== null) throw new Error(mistake);
  const blocks = (role: string): readonly (readonly Json[])[] =>
    messages.filter((each) => each["role"] === role).map(({ content }) => list(content));
  const results = blocks("user")
    .flat()
    .flatMap(({ toolResult }) => (toolResult === undefined ? [] : [object(toolResult)]));
  return {
    model: decodeURIComponent(/model\/([^/]+)\//.exec(path)?.[1] ?? ""),
    stream: path.endsWith("/converse-stream"),
    tools: list(object(body["toolConfig"])["tools"]).flatMap(({ toolSpec }) => {
      const { name, description, inputSchema } = object(toolSpec);
      return name === undefined ? [] : [declared(name, description, object(inputSchema)["json"])];
    }),
    results: results.map(({ content }) =>
      list(content)
        .map(({ text }) => (typeof text === "string" ? text : ""))
        .join(""),
    ),
    thoughts: blocks("assistant").map((each) => {
      const found = each.find(({ reasoningContent }) => reasoningContent !== undefined);
      if (found === undefined) return undefined;
      const reasoned = object(object(found["reasoningContent"])["reasoningText"]);
      if (reasoned["signature"] !== signature) throw new Error("the signature of a thought was changed");
      return String(reasoned["text"]);
    }),
  };
}

/** The service wants roles that alternate, from the user on, and the results of all calls in the next message. */
function mistakeInBlocks(messages: readonly Json[]): string | null {
  let open: readonly unknown[] = [];
  for (const [at, { role, content }] of messages.entries()) {
    if (role !== (at % 2 === 0 ? "user" : "assistant")) return `message ${at} has the role ${String(role)}`;
    const answered = list(content).flatMap(({ toolResult }) => (toolResult === undefined ? [] : [object(toolResult)["toolUseId"]]));
    if (open.length !== answered.length || !open.every((id) => answered.includes(id))) return `message ${at} has other results than calls`;
    open = list(content).flatMap(({ toolUse }) => (toolUse === undefined ? [] : [object(toolUse)["toolUseId"]]));
  }
  return open.length === 0 ? null : "the last calls have no results";
}
