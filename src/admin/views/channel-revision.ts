import type { StoredChannel } from "../../gateway/storage.ts";
import type { Services } from "../services.ts";

/**
 * The name of what a channel is now: any change gives it another. It is a keyed hash, because what it is made of holds what
 * viewers may not see.
 */
export function channelTag(channel: StoredChannel, { adminDigest }: Services): string {
  return adminDigest(`channel ${JSON.stringify(channel)}`).slice(0, tagCharacters);
}

const tagCharacters = 32;

/** Whether a change is meant for what is there now, by the header `if-match`: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1 */
export function matches(ifMatch: string | null, tag: string): boolean {
  if (ifMatch === null || ifMatch.trim() === "*") return true;
  return ifMatch.split(",").some((one) => one.trim() === `"${tag}"`);
}
