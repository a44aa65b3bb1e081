import type { ChatAsk } from "./chat.ts";
import type { Failure } from "./failure.ts";
import { elementsOf, type Member, lastMember, membersOf, scanJson, valueOf } from "./json.ts";
import { bodyMistake, missing, mistake, modelMistake, present, wrongType } from "./mistakes.ts";

/** Reads a chat request: the facts the gateway decides on, or the mistake the client can mend. Unknown fields are welcome. */
export function readChatRequest(body: Uint8Array): ChatAsk | Failure {
  const document = scanJson(body);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const { members } = document;
  const field = (key: string): Member | undefined => present(lastMember(members, key));

  const model = field("model");
  if (model === undefined) return missing("model");
  if (model.kind !== "string") return wrongType("model", "a string");
  const modelName = valueOf(body, model) as string;
  const unnamable = modelMistake(modelName);
  if (unnamable !== null) return unnamable;

  const messages = field("messages");
  if (messages === undefined) return missing("messages");
  if (messages.kind !== "array") return wrongType("messages", "an array");
  if (messages.empty) return mistake("'messages' must hold at least one message.", "empty_array", "messages");

  const stream = field("stream");
  if (stream !== undefined && stream.kind !== "true" && stream.kind !== "false") return wrongType("stream", "a boolean");

  const hostedTools = actsUpstream(body, field("tools")) || field("web_search_options") !== undefined;
  const choices = number(body, field("n")) ?? 1;
  return {
    operation: "chat",
    body,
    document,
    members,
    model: modelName,
    stream: stream?.kind === "true",
    wantsUsage: wantsUsage(body, field("stream_options")),
    maxTokens: number(body, field("max_tokens")),
    maxCompletionTokens: number(body, field("max_completion_tokens")),
    choices,
    hostedTools,
    plainText: choices === 1 && !hostedTools && shapedBy.every((key) => field(key) === undefined),
    promptTokensEstimate: Math.ceil((messages.end - messages.start) / bytesPerToken),
  };
}

const bytesPerToken = 4;

/** Fields that make the answer something other than one run of text. */
const shapedBy = ["tools", "functions", "response_format", "logprobs", "modalities", "audio", "reasoning_effort"];

function number(body: Uint8Array, member: Member | undefined): number | null {
  return member?.kind === "number" ? (valueOf(body, member) as number) : null;
}

function wantsUsage(body: Uint8Array, options: Member | undefined): boolean {
  if (options?.kind !== "object") return false;
  return lastMember(membersOf(body, options.start, options.end), "include_usage")?.kind === "true";
}

/** Functions and custom tools run at the client; every other type of tool acts at the upstream. */
function actsUpstream(body: Uint8Array, tools: Member | undefined): boolean {
  if (tools?.kind !== "array") return false;
  return elementsOf(body, tools.start, tools.end).some((tool) => {
    if (tool.kind !== "object") return false;
    const type = lastMember(membersOf(body, tool.start, tool.end), "type");
    const name = type?.kind === "string" ? valueOf(body, type) : "function";
    return name !== "function" && name !== "custom";
  });
}
