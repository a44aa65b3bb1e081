import type { ChatTurn } from "../addons/llama.ts";
import { unsupported, type Fields } from "./fields.ts";
import { isRequestError, requestError, type RequestError } from "./request-error.ts";

/** The text that the model continues: the last user message. The model cannot use anything else. */
export function promptOf(messages: unknown): string | RequestError {
  const read = messagesOf(messages);
  if (isRequestError(read)) return read;
  return (
    read.findLast(({ role }) => role === "user")?.text ??
    requestError(400, "`messages` must contain a user message, which this model continues.", { param: "messages", code: "invalid_value" })
  );
}

/** The whole conversation. Content that the model was not trained on is rejected, not left out. */
export function conversationOf(messages: unknown): readonly ChatTurn[] | RequestError {
  const read = messagesOf(messages);
  if (isRequestError(read)) return read;
  if (read.length === 0) return requestError(400, "`messages` is empty.", { param: "messages", code: "invalid_value" });
  const turns: ChatTurn[] = [];
  for (const [index, { role, text, callsTools }] of read.entries()) {
    const known = roles.get(role);
    if (known === undefined)
      return unsupported(`messages[${index}].role`, `This model supports only messages with the roles ${[...roles.keys()].join(", ")}.`);
    if (callsTools) return unsupported(`messages[${index}].tool_calls`, "This model does not support tool calls.");
    turns.push({ role: known, content: text });
  }
  return turns;
}

/** `system` and `developer` are two names of the same role. */
const roles: ReadonlyMap<string, ChatTurn["role"]> = new Map([
  ["system", "system"],
  ["developer", "system"],
  ["user", "user"],
  ["assistant", "assistant"],
]);

interface Message {
  readonly role: string;
  readonly text: string;
  readonly callsTools: boolean;
}

function messagesOf(messages: unknown): readonly Message[] | RequestError {
  if (messages == null) return requestError(400, "`messages` is missing.", { param: "messages", code: "missing_required_parameter" });
  if (!Array.isArray(messages)) return requestError(400, "`messages` must be a list.", { param: "messages", code: "invalid_type" });
  const read: Message[] = [];
  for (const [index, message] of messages.entries()) {
    const param = `messages[${index}]`;
    if (typeof message !== "object" || message === null)
      return requestError(400, `\`${param}\` must be an object.`, { param, code: "invalid_type" });
    const { role, content, tool_calls: calls } = message as Fields;
    if (typeof role !== "string")
      return requestError(400, `\`${param}.role\` must be a string.`, { param: `${param}.role`, code: "invalid_type" });
    const text = textOf(content, `${param}.content`);
    if (typeof text !== "string") return text;
    read.push({ role, text, callsTools: Array.isArray(calls) && calls.length > 0 });
  }
  return read;
}

function textOf(content: unknown, param: string): string | RequestError {
  if (content == null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content))
    return requestError(400, `\`${param}\` must be a string or a list of parts.`, { param, code: "invalid_type" });
  const texts: string[] = [];
  for (const [index, part] of content.entries()) {
    const { type, text, refusal: refusalText } = (part ?? {}) as Fields;
    if (type === "refusal" && typeof refusalText === "string") {
      texts.push(refusalText);
      continue;
    }
    if (type !== "text") return unsupported(`${param}[${index}]`, "This model supports text only.");
    if (typeof text !== "string") {
      return requestError(400, `\`${param}[${index}].text\` must be a string.`, { param: `${param}[${index}].text`, code: "invalid_type" });
    }
    texts.push(text);
  }
  return texts.join("\n");
}
