import { voiceFor, type ChosenVoice } from "../../channels/voice.ts";
import { voicesOf, type Candidate, type Route } from "../../channels/channel.ts";
import { isFailure } from "../../operations/failure.ts";

/**
 * The route for the other parts once a channel has spoken the first: that channel, and if it fails only channels with the same voice.
 * A change of voice in the middle would be worse than an error.
 */
export function withSameVoice(route: Route, asked: string | null, channel: string | null): Route {
  const isFirst = ({ deployment }: Candidate): boolean => deployment.channel.name === channel;
  const candidates = route.tiers.flat();
  const first = candidates.filter(isFirst);
  if (first.length === 0) return route;
  const voice = voiceOf(first[0]!, asked);
  const others = route.tiers.map((tier) => tier.filter((one) => !isFirst(one) && isSame(voiceOf(one, asked), voice)));
  const tiers = [first, ...others].filter((tier) => tier.length > 0);
  return { model: route.model, tiers, size: tiers.reduce((sum, tier) => sum + tier.length, 0) };
}

function voiceOf({ deployment }: Candidate, asked: string | null): ChosenVoice | null {
  const chosen = voiceFor(voicesOf(deployment.channel, deployment.model), asked);
  return isFailure(chosen) ? null : chosen;
}

function isSame(one: ChosenVoice | null, other: ChosenVoice | null): boolean {
  return one !== null && other !== null && one.voice === other.voice;
}
