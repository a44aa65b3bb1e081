import type { Deployment } from "../../channels/channel.ts";
import { partOwner } from "../../dialects/target-conversation.ts";
import { sealPart, type TextSeal } from "../../operations/conversation/sealed-parts.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";

/** Seals what a deployment says for the client to carry. The deployment is asked for each time: another one may go on with the answer. */
export function sealFor(seal: TextSeal | null, keyId: string, deployment: () => Deployment): AnswerContext["seal"] {
  if (seal === null) return null;
  return (part) => {
    const { channel, model } = deployment();
    return sealPart(part, seal, partOwner(keyId, channel, model));
  };
}
