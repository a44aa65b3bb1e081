import type { ChatRequest } from "../operations/chat/chat-request.ts";
import type { Conversation, Part } from "../operations/conversation/conversation.ts";
import { withOpenedParts } from "../operations/conversation/sealed-parts.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { Target } from "./dialect.ts";

/**
 * What a request says, for one target. Of what the gateway sealed for the client to carry, the target gets back what it made itself; the
 * rest is left out. A codec that is given such a conversation finds no sealed value in it.
 */
export function conversationFor(ask: ChatRequest, { unseal = opensNothing }: Pick<Target, "unseal">): Conversation | Failure {
  const conversation = ask.toConversation(ask);
  return isFailure(conversation) ? conversation : withOpenedParts(conversation, unseal);
}

function opensNothing(): Part | null {
  return null;
}
