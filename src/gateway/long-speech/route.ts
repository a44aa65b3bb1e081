import { voiceFor, type ChosenVoice } from "../../channels/voice.ts";
import { voicesOf, type Candidate, type Route } from "../../channels/channel.ts";
import { isFailure } from "../../operations/failure.ts";

/**
 * With whom the rest of a text is spoken, once a channel has begun: with that channel, and where it fails only with those
 * that go by the same name of the voice. A change of voice in the middle would be worse than an error.
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
