import type { Deployment } from "../../channels/channel.ts";
import type { Target } from "../../dialects/dialect.ts";
import { openPart, sealPart, type PartOwner, type TextSeal } from "../../operations/conversation/sealed-parts.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";

/** Seals what a deployment says for the client to carry. The deployment is asked for each time: another one may go on with the answer. */
export function sealFor(seal: TextSeal | null, keyId: string, deployment: () => Deployment): AnswerContext["seal"] {
  return seal === null ? null : (part) => sealPart(part, seal, ownerOf(keyId, deployment()));
}

/** Opens what the client carries of this deployment. */
export function unsealFor(seal: TextSeal | null, keyId: string, deployment: Deployment): NonNullable<Target["unseal"]> {
  return seal === null ? opensNothing : (sealed) => openPart(sealed, seal, ownerOf(keyId, deployment));
}

function opensNothing(): null {
  return null;
}

function ownerOf(keyId: string, { channel, model }: Deployment): PartOwner {
  return { keyId, dialect: channel.dialect, host: channel.address.host, model };
}
