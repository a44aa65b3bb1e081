import { oncePerRoute, type Channel, type Route } from "../channels/channel.ts";
import type { BudgetSelector } from "../limits/limits.ts";
import { matchesPattern } from "./allow.ts";

/** What a budget looks at of a channel. */
export type NamedChannel = Pick<Channel, "name" | "tags">;

/** Whether a selector is for the model and the operation of a call. Which channel serves the call is known later. */
export function selectsCall({ models, operations }: BudgetSelector, model: string, operation: string): boolean {
  if (operations !== null && !operations.some((one) => one === operation)) return false;
  return models === null || models.some((pattern) => matchesPattern(pattern, model));
}

/** Whether patterns name a channel, or one of its tags. */
export function isNamedBy({ name, tags }: NamedChannel, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matchesPattern(pattern, name) || tags.some((tag) => matchesPattern(pattern, tag)));
}

/** Whether patterns name a channel that may serve a call. */
export function namesAny(patterns: readonly string[], { tiers }: Pick<Route, "tiers">): boolean {
  return tiers.some((members) => members.some(({ deployment }) => isNamedBy(deployment.channel, patterns)));
}

/** The channel of this name on a route; null if there is none. */
export function channelNamed(route: Route, name: string | null): NamedChannel | null {
  return name === null ? null : (channelsByName(route).get(name) ?? null);
}

const channelsByName = oncePerRoute(({ tiers }: Route): ReadonlyMap<string, NamedChannel> => {
  const byName = new Map<string, NamedChannel>();
  for (const members of tiers) for (const { deployment } of members) byName.set(deployment.channel.name, deployment.channel);
  return byName;
});

/** What a budget looks at of calls that were paid. */
export interface PaidCalls {
  readonly model: string;
  /** Empty if no channel answered. */
  readonly channel: string;
  /** As in a receipt: if no channel answered, they say whose calls they are. */
  readonly tags: readonly string[];
  readonly operation: string;
}

/** Whether calls count on a budget with this selector. A call counts for the channel that answered it, or else for the one that charges for it. */
export function selectsPaid(selector: BudgetSelector, { model, channel, tags, operation }: PaidCalls): boolean {
  if (!selectsCall(selector, model, operation)) return false;
  if (selector.channels === null) return true;
  if (channel === "" && tags.length === 0) return false;
  return tags.includes(anyChannel) || isNamedBy({ name: channel, tags }, selector.channels);
}

/** In place of the tags of a call that any channel may charge for. No tag is called that. */
export const anyChannel = "*";

/** How many characters of tags the sums of usage hold: they are a part of their primary keys. */
export const tagsCharactersMax = 500;

/** The characters of a channel's tags there. Where no channel answered, its name stands before them. */
export function tagsCharacters({ name, tags }: NamedChannel): number {
  return [name, ...tags].join(" ").length;
}
