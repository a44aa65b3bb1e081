import { matchesPattern } from "./allow.ts";

/**
 * Whether a rule is the first that applies to a model: the model matches its pattern, and no pattern of the rules before it. A
 * rule without a pattern applies to all models.
 */
export function belongsTo(pattern: string | null, before: readonly string[], model: string): boolean {
  if (pattern !== null && !matchesPattern(pattern, model)) return false;
  return !before.some((earlier) => matchesPattern(earlier, model));
}

/** Whether a name may match both patterns. False is certain, true is not. */
export function mayOverlap(one: string, other: string): boolean {
  if (!one.includes("*")) return matchesPattern(other, one);
  if (!other.includes("*")) return matchesPattern(one, other);
  const [oneStart, oneEnd] = ends(one);
  const [otherStart, otherEnd] = ends(other);
  return (oneStart.startsWith(otherStart) || otherStart.startsWith(oneStart)) && (oneEnd.endsWith(otherEnd) || otherEnd.endsWith(oneEnd));
}

/** The parts before the first star and after the last. */
function ends(pattern: string): readonly [start: string, end: string] {
  return [pattern.slice(0, pattern.indexOf("*")), pattern.slice(pattern.lastIndexOf("*") + 1)];
}
