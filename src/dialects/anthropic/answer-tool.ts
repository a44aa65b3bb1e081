import type { Conversation, Tool } from "../../operations/conversation/conversation.ts";
import type { MessagesModel } from "./model-facts.ts";

/**
 * A tool that the model has to answer with, where it cannot be held to a schema otherwise. Its input is the answer, and the client does not
 * see it as a call. It cannot stand beside other tools, because the model has to be free to call those.
 */
export const answerToolName = "structured_answer";

export function withAnswerTool(conversation: Conversation, { schemas, forcedTools }: MessagesModel): Conversation {
  const { outputFormat, tools } = conversation;
  if (outputFormat?.kind !== "schema" || schemas || !forcedTools || tools.length > 0) return conversation;
  const tool: Tool = {
    name: answerToolName,
    description: outputFormat.description ?? "Gives the answer.",
    parameters: outputFormat.schema,
    strict: null,
  };
  return {
    ...conversation,
    outputFormat: null,
    tools: [tool],
    toolChoice: { kind: "named", name: answerToolName },
    parallelToolCalls: false,
  };
}
