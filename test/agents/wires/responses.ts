import { functionCall, message, reasoning, response, responseEvents, type ScriptedItem } from "../../support/responses-script.ts";
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

export const responsesWire: ScriptedWire = {
  channel: { dialect: "openai-responses" },
  contentType: serverSentEvents,
  read,
  whole: (turn) => response(itemsOf(turn)),
  events: (turn) => responseEvents(itemsOf(turn)).map(named),
};

function itemsOf({ thought, text: said, call }: ScriptedTurn): readonly ScriptedItem[] {
  return [
    ...(thought === "" ? [] : [reasoning(signature, thought)]),
    message(said),
    ...(call === null ? [] : [functionCall(call.id, call.name, JSON.stringify(call.arguments))]),
  ];
}

function read(body: Json): ScriptedRequest {
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
