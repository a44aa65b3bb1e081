import { isFailure } from "../../src/operations/failure.ts";
import { openaiChat } from "../../src/surfaces/openai-chat/index.ts";
import type { FuzzTarget } from "./target.ts";

/** Whatever a client writes in the chat API is a conversation, a mistake of its own or something that only its own API can: nothing is thrown. */
export const chatTarget: FuzzTarget = {
  name: "chat",
  seeds: [
    '{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}',
    `{"model":"m","messages":[{"role":"assistant","content":null,"reasoning_content":"t","reasoning_details":[{"type":"reasoning.text","text":"t",
      "signature":"sluice-v1.x"},{"type":"reasoning.encrypted","data":"e"}],"tool_calls":[{"id":"a","type":"function","function":{"name":"f",
      "arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}},{"id":"b","type":"custom","custom":{"name":"c","input":"i"}}]},
      {"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"r"}]}]}`,
    `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},
      {"type":"file","file":{"filename":"a.pdf","file_data":"AA"}},{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]}],
      "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":
      {"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},"response_format":{"type":"json_schema","json_schema":{"name":"n",
      "schema":{}}},"reasoning":{"effort":"low"},"stop":["x"],"n":1,"modalities":["text"],"functions":[{"name":"g"}],"function_call":"auto"}`,
  ],
  words: [
    ...['"role":', '"content":', '"type":', '"tool_calls":', '"reasoning_details":', '"image_url":', '"system"', '"user"', '"assistant"'],
    ...['"tool"', '"function"', '"custom"', '"data:,"', '"__proto__":', "null", "[]", "{}", "-1", "1e999", '""', "\\ud800", ",", "[[[["],
  ],
  check: (input) => {
    const ask = openaiChat.parse(input);
    if (isFailure(ask)) return `${ask.param} ${ask.code}`;
    const conversation = ask.toConversation(ask);
    if (isFailure(conversation)) return `${conversation.param?.replaceAll(/\d+/g, "")} ${conversation.code}`;
    return conversation.turns.map(({ role, parts }) => [role, ...parts.map(({ kind }) => kind)].join()).join(";");
  },
};
