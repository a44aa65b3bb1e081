import type { Channel, Route } from "../channels/channel.ts";
import { matchesPattern } from "../keys/allow.ts";

/** The part of a route that a key may be served by, which is bound to channels by their names or tags; null where there is none. */
export function boundTo(route: Route, channels: readonly string[] | null): Route | null {
  return channels === null ? route : narrowed(route, channels);
}

function narrowed(route: Route, channels: readonly string[]): Route | null {
  const tiers = route.tiers
    .map((members) => members.filter(({ deployment }) => serves(deployment.channel, channels)))
    .filter((members) => members.length > 0);
  if (tiers.length === 0) return null;
  return { model: route.model, tiers, size: tiers.reduce((sum, members) => sum + members.length, 0) };
}

function serves({ name, tags }: Channel, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name) || tags.some((tag) => matchesPattern(pattern, tag)));
}
