import type { ChatAnswer } from "../../operations/conversation/answer-parts.ts";
import type { Part, ToolCallPart } from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import {
  callId,
  citationsOf,
  freeInputJson,
  inputJson,
  messageId,
  messageJson,
  messageUsage,
  outputTokens,
  redactedBlock,
  signatureText,
  stopOf,
  textBlock,
  thinkingBlock,
  toolUseBlock,
} from "./message.ts";

/** The body of a complete answer. */
export function messageBody(answer: ChatAnswer, context: AnswerContext): Uint8Array {
  const { parts, finish, usage } = answer;
  const hasCalls = parts.some(({ kind }) => kind === "tool_call");
  const refusal = parts.flatMap((part) => (part.kind === "refusal" ? [part.text] : [])).join("");
  const json = messageJson({
    id: messageId(context),
    model: answer.model ?? context.request.model,
    content: parts.flatMap((part, index) => blocksOf(part, index, context)).join(","),
    stop: stopOf(finish, hasCalls, refusal === "" ? null : refusal),
    usage: messageUsage(usage, context.request.promptTokensEstimate, outputTokens(charactersIn(parts))),
  });
  return encoder.encode(json);
}

const encoder = new TextEncoder();

/** Clients send back what they got, and the API refuses empty texts. */
function blocksOf(part: Part, index: number, context: AnswerContext): readonly string[] {
  switch (part.kind) {
    case "text": {
      const citations = citationsOf(part.citations);
      const signed = part.signature === undefined ? [] : sealed(part, context);
      return part.text === "" && citations === null ? signed : [textBlock(part.text, citations), ...signed];
    }
    case "refusal":
      return part.text === "" ? [] : [textBlock(part.text, null)];
    case "reasoning": {
      const signature = signatureText(part.signature, part, context);
      if (part.redacted === true) return signature === "" ? [] : [redactedBlock(signature)];
      return part.text === "" && signature === "" ? [] : [thinkingBlock(part.text, signature)];
    }
    case "tool_call": {
      const id = callId(part.id, index, context);
      const signed = part.signature === undefined ? [] : sealed({ ...part, id }, context);
      return [...signed, toolUseBlock(id, part.name, inputOf(part))];
    }
    // A model that is asked for text makes none of these.
    case "image":
    case "audio":
    case "file":
    case "tool_result":
      return [];
  }
}

/** A signature on a text or a call has no place of its own here: it is carried beside them. */
function sealed(part: Part, { seal }: AnswerContext): readonly string[] {
  const data = seal?.(part) ?? "";
  return data === "" ? [] : [redactedBlock(data)];
}

function inputOf({ custom, arguments: text }: ToolCallPart): string {
  return custom === true ? freeInputJson(text) : inputJson(text);
}

function charactersIn(parts: readonly Part[]): number {
  let characters = 0;
  for (const part of parts) {
    if (part.kind === "tool_call") characters += part.arguments.length;
    else if (part.kind === "text" || part.kind === "refusal" || part.kind === "reasoning") characters += part.text.length;
  }
  return characters;
}
