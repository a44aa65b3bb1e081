import type { Channel } from "../channels/channel.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import type { Conversation, Part } from "../operations/conversation/conversation.ts";
import { withoutFields } from "../operations/conversation/optional-fields.ts";
import { openPart, withOpenedParts, type PartOwner } from "../operations/conversation/sealed-parts.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { Target } from "./dialect.ts";

/**
 * What a request says, for one target. Of what the gateway sealed for the client to carry, the target gets back what it made itself; the
 * rest is left out. A codec that is given such a conversation finds no sealed value in it.
 */
export function conversationFor(ask: ChatRequest, target: SealingTarget): Conversation | Failure {
  const asked = ask.toConversation(ask);
  if (isFailure(asked)) return asked;
  const { refusedFields = null } = target;
  const conversation = refusedFields === null ? asked : withoutFields(asked, refusedFields);
  return target.withoutReasoning === true ? withoutReasoning(conversation) : withOpenedParts(conversation, openerFor(target));
}

type SealingTarget = Pick<Target, "seal" | "keyId" | "channel" | "model" | "withoutReasoning" | "refusedFields">;

/** The conversation without what an upstream thought in it, and without the signatures of that. */
function withoutReasoning(conversation: Conversation): Conversation {
  const turns = conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.flatMap(unsignedPart) }));
  return { ...conversation, turns: turns.filter(({ parts }) => parts.length > 0) };
}

function unsignedPart(part: Part): readonly Part[] {
  if (part.kind === "reasoning") return [];
  if ((part.kind !== "text" && part.kind !== "tool_call") || part.signature === undefined) return [part];
  const { signature: _, ...rest } = part;
  return [rest];
}

/** Opens a value that the gateway sealed; null where this target did not make it. */
export function openerFor({ seal, keyId = "", channel, model }: SealingTarget): (sealed: string) => Part | null {
  if (seal == null) return opensNothing;
  const owner = partOwner(keyId, channel, model);
  return (sealed) => openPart(sealed, seal, owner);
}

export function partOwner(keyId: string, channel: Pick<Channel, "dialect" | "address">, model: string): PartOwner {
  return { keyId, dialect: channel.dialect, host: channel.address.host, model };
}

function opensNothing(): Part | null {
  return null;
}
