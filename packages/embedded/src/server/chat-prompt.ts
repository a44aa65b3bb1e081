import type { ChatTurn } from "../addons/llama.ts";
import { unsupported, type Fields } from "./fields.ts";
import { isRefusal, refusal, type Refusal } from "./refusal.ts";

/** The text that the model is to continue: the last message of the user. Whatever else was said, it cannot heed. */
export function promptOf(messages: unknown): string | Refusal {
  const read = messagesOf(messages);
  if (isRefusal(read)) return read;
  return (
    read.findLast(({ role }) => role === "user")?.text ??
    refusal(400, "`messages` has no message of the user, which this model would continue.", { param: "messages", code: "invalid_value" })
  );
}

/** All that was said, by whom and in order. What the model was not taught to read is refused, never left out. */
export function conversationOf(messages: unknown): readonly ChatTurn[] | Refusal {
  const read = messagesOf(messages);
  if (isRefusal(read)) return read;
  if (read.length === 0) return refusal(400, "`messages` is empty.", { param: "messages", code: "invalid_value" });
  const turns: ChatTurn[] = [];
  for (const [index, { role, text, callsTools }] of read.entries()) {
    const known = roles.get(role);
    if (known === undefined)
      return unsupported(`messages[${index}].role`, `This model reads messages of ${[...roles.keys()].join(", ")} only.`);
    if (callsTools) return unsupported(`messages[${index}].tool_calls`, "This model calls no tools.");
    turns.push({ role: known, content: text });
  }
  return turns;
}

/** Who speaks for the makers of an application has two names. */
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

function messagesOf(messages: unknown): readonly Message[] | Refusal {
  if (messages == null) return refusal(400, "`messages` is missing.", { param: "messages", code: "missing_required_parameter" });
  if (!Array.isArray(messages)) return refusal(400, "`messages` must be a list.", { param: "messages", code: "invalid_type" });
  const read: Message[] = [];
  for (const [index, message] of messages.entries()) {
    const param = `messages[${index}]`;
    if (typeof message !== "object" || message === null)
      return refusal(400, `\`${param}\` must be an object.`, { param, code: "invalid_type" });
    const { role, content, tool_calls: calls } = message as Fields;
    if (typeof role !== "string")
      return refusal(400, `\`${param}.role\` must be a string.`, { param: `${param}.role`, code: "invalid_type" });
    const text = textOf(content, `${param}.content`);
    if (typeof text !== "string") return text;
    read.push({ role, text, callsTools: Array.isArray(calls) && calls.length > 0 });
  }
  return read;
}

function textOf(content: unknown, param: string): string | Refusal {
  if (content == null) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return refusal(400, `\`${param}\` must be a string or a list of parts.`, { param, code: "invalid_type" });
  const texts: string[] = [];
  for (const [index, part] of content.entries()) {
    const { type, text, refusal: refused } = (part ?? {}) as Fields;
    if (type === "refusal" && typeof refused === "string") {
      texts.push(refused);
      continue;
    }
    if (type !== "text") return unsupported(`${param}[${index}]`, "This model reads text only.");
    if (typeof text !== "string") {
      return refusal(400, `\`${param}[${index}].text\` must be a string.`, { param: `${param}[${index}].text`, code: "invalid_type" });
    }
    texts.push(text);
  }
  return texts.join("\n");
}
