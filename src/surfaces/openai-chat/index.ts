import { readChatRequest } from "../../operations/chat/chat-request.ts";
import type { Surface } from "../../operations/conversation/surface.ts";
import { completionBody, echoOf } from "./completion.ts";
import { chatConversation } from "./conversation.ts";
import { openaiErrors } from "./errors.ts";
import { ChunkWriter } from "./stream.ts";

/** `POST /v1/chat/completions` of the OpenAI API. */
export const openaiChat: Surface = {
  name: "openai-chat",
  parse: (body) => readChatRequest(body, chatConversation),
  echo: echoOf,
  whole: completionBody,
  writer: (context) => new ChunkWriter(context),
  ...openaiErrors,
};
