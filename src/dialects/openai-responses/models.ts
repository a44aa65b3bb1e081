import type { Channel } from "../../channels/channel.ts";
import { matchesPattern } from "../../keys/allow.ts";
import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { openReasoning, responsesOnly, splitsReasoning, withoutReasoning } from "../presets.ts";

/** What the encrypted reasoning of this API is marked with. It is the same wherever the API is spoken. */
export const ownValues = "openai-responses";

/** Whether a channel is asked in this API for a model. */
export function speaksResponses(ask: AskedApi, { quirks }: Pick<Channel, "quirks">, model: string): boolean {
  for (const { models, api } of quirks.chatApis) {
    if (models !== "*" && !matchesPattern(models, model)) continue;
    return api === "responses" || (api === "both" && suitsResponses(ask, model));
  }
  return false;
}

type AskedApi = Pick<ChatRequest, "surface" | "reasons" | "members">;

/**
 * Whether an upstream that has both APIs is asked in this one. A client that speaks one of them is served in it. But some models have
 * this API only, and some refuse tools together with reasoning in chat completions. A request that is translated anyway
 * is better written in this API for them, because their reasoning survives in it.
 */
function suitsResponses(ask: AskedApi, model: string): boolean {
  const name = bareName(model);
  if (ask.surface === "openai-responses" || responsesOnly.test(name)) return true;
  if (!splitsReasoning.test(name)) return false;
  return ask.surface !== "openai-chat" || (ask.reasons && hasTools(ask));
}

function hasTools({ members }: Pick<ChatRequest, "members">): boolean {
  return members.some(({ key, kind, empty }) => (key === "tools" || key === "functions") && kind === "array" && !empty);
}

/** Whether the model reasons, and encrypts its reasoning when it is asked to. The others refuse to be asked. */
export function encryptsReasoning(model: string): boolean {
  return !withoutReasoning.test(bareName(model));
}

/** Whether the model takes its reasoning back as it showed it. */
export function takesReasoningText(model: string): boolean {
  return openReasoning.test(bareName(model));
}

/** Resellers put the provider in front of the name. */
function bareName(model: string): string {
  return model.slice(model.lastIndexOf("/") + 1);
}
