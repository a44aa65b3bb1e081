import { isFailure } from "../../src/operations/failure.ts";
import { scanJson } from "../../src/operations/json.ts";
import { splice } from "../../src/operations/splice.ts";
import { foreignThinking } from "../../src/dialects/anthropic/foreign-thinking.ts";
import { anthropicMessages } from "../../src/surfaces/anthropic-messages/index.ts";
import type { FuzzTarget } from "./target.ts";

/**
 * Whatever a client writes in the Messages API is a conversation or a mistake of its own: nothing is thrown, the arguments of every call
 * are JSON, and what is left without foreign thinking is JSON as well.
 */
export const messagesTarget: FuzzTarget = {
  name: "messages",
  seeds: [
    '{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"x"}]}',
    `{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":""},
      {"type":"redacted_thinking","data":"sluice-v1.x"},{"type":"tool_use","id":"a","name":"f","input":{"a":[1,"\\"}"]}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r"}],"is_error":false}]}]}`,
    `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","title":"t","source":{"type":"content","content":"c"}},
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],
      "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":1024},
      "output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},"stop_sequences":["x"],"metadata":{"user_id":"u"}}`,
  ],
  words: [
    ...['"role":', '"content":', '"type":', '"source":', '"input":', '"signature":', '"system"', '"user"', '"assistant"', '"tool_use"'],
    ...['"tool_result"', '"thinking"', '"url"', '"file"', '"__proto__":', "null", "[]", "{}", "-1", "1e999", '""', "\\ud800", ",", "[[[["],
  ],
  check: (input) => {
    const ask = anthropicMessages.parse(input);
    if (isFailure(ask)) return `${ask.param} ${ask.code}`;
    const sent = splice(input, foreignThinking(ask));
    if (!scanJson(sent).ok) throw new Error(`no JSON is left: ${new TextDecoder().decode(sent)}`);
    const conversation = ask.toConversation(ask);
    if (isFailure(conversation)) return `${conversation.param?.replaceAll(/\d+/g, "")} ${conversation.code}`;
    for (const part of conversation.turns.flatMap(({ parts }) => parts)) {
      if (part.kind === "tool_call") JSON.parse(part.arguments);
    }
    return conversation.turns.map(({ role, parts }) => [role, ...parts.map(({ kind }) => kind)].join()).join(";");
  },
};
