/** What is needed of a channel to arrange it among others. */
export interface ArrangedChannel {
  readonly name: string;
  readonly tier: number | null;
}

/** The channels of each tier, the lowest first. */
export function tiersOf<Channel extends ArrangedChannel>(
  channels: readonly Channel[],
): readonly (readonly [tier: number, channels: readonly Channel[]])[] {
  const known = channels.filter(({ tier }) => tier !== null);
  return [...Map.groupBy(known, ({ tier }) => tier ?? 0)]
    .toSorted(([one], [other]) => one - other)
    .map(([tier, some]) => [tier, some.toSorted((one, other) => (one.name < other.name ? -1 : 1))]);
}

/** The tier before or after one, among those that there are; beyond the last, a new one. Null if there is none before. */
export function neighbourTier(tiers: readonly number[], tier: number, step: -1 | 1): number | null {
  const at = tiers.indexOf(tier);
  if (step === 1) return tiers[at + 1] ?? Math.min(tier + 1, tierMax);
  return at > 0 ? (tiers[at - 1] ?? null) : tier > 0 ? tier - 1 : null;
}

const tierMax = 1000;
