import { messageEvents, scriptedMessage, text, thinking, toolUse, type ScriptedBlock } from "../../support/messages-script.ts";
import {
  declared,
  list,
  named,
  serverSentEvents,
  signature,
  type Json,
  type ScriptedRequest,
  type ScriptedTurn,
  type ScriptedWire,
} from "./wire.ts";

export const messagesWire: ScriptedWire = {
  channel: { dialect: "anthropic", auth_header: "x-api-key" },
  contentType: serverSentEvents,
  read,
  whole: (turn) => scriptedMessage(blocksOf(turn), messageId(turn)),
  events: (turn) => messageEvents(blocksOf(turn), messageId(turn)).map(named),
};

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

function read(body: Json): ScriptedRequest {
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
