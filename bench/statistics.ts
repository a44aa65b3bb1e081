export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which the given share of the sorted values lies, interpolated between neighbours. */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? below;
  return below + (above - below) * (position - Math.floor(position));
}

/** Divides round by round, so that a disturbance that hits both targets of a round cancels out. */
export function medianRatio(values: readonly number[], references: readonly number[]): number {
  return median(pairs(values, references).map(([value, reference]) => value / reference));
}

export function medianDifference(values: readonly number[], references: readonly number[]): number {
  return median(pairs(values, references).map(([value, reference]) => value - reference));
}

function pairs(values: readonly number[], references: readonly number[]): [number, number][] {
  return values.flatMap((value, round) => {
    const reference = references[round];
    return reference === undefined ? [] : [[value, reference] as [number, number]];
  });
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Without the fifth at either end: a turn in which one of them was compiled or collected says nothing about the others. */
export function trimmedMean(values: readonly number[]): number {
  const cut = trimmedOf(values);
  return mean(values.toSorted((a, b) => a - b).slice(cut, values.length - cut));
}

/**
 * How far the trimmed mean of as many other values would be from this one: its standard error. The values that the mean leaves out count as
 * the outermost that it does not (Tukey and McLaughlin, 1963).
 */
export function trimmedError(values: readonly number[]): number {
  const cut = trimmedOf(values);
  const sorted = values.toSorted((a, b) => a - b);
  const [least, most] = [sorted[cut] ?? Number.NaN, sorted[sorted.length - 1 - cut] ?? Number.NaN];
  const winsorized = sorted.map((value) => Math.min(most, Math.max(least, value)));
  const middle = mean(winsorized);
  const squares = winsorized.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const kept = 1 - (2 * cut) / values.length;
  return Math.sqrt(squares / (values.length - 1) / values.length) / kept;
}

function trimmedOf(values: readonly number[]): number {
  return Math.floor(values.length / 5);
}
