import { matchesPattern } from "./allow.ts";

/**
 * Whether a model belongs to a rule, of which the first that fits counts: it fits the rule's pattern, and none of those of
 * the rules before it. Without a pattern the rule is for all models.
 */
export function belongsTo(pattern: string | null, before: readonly string[], model: string): boolean {
  if (pattern !== null && !matchesPattern(pattern, model)) return false;
  return !before.some((earlier) => matchesPattern(earlier, model));
}

/** Whether a name could fit both patterns. No is certain, yes is not. */
export function mayOverlap(one: string, other: string): boolean {
  if (!one.includes("*")) return matchesPattern(other, one);
  if (!other.includes("*")) return matchesPattern(one, other);
  const [oneStart, oneEnd] = ends(one);
  const [otherStart, otherEnd] = ends(other);
  return (oneStart.startsWith(otherStart) || otherStart.startsWith(oneStart)) && (oneEnd.endsWith(otherEnd) || otherEnd.endsWith(oneEnd));
}

/** What stands before the first star and after the last. */
function ends(pattern: string): readonly [start: string, end: string] {
  return [pattern.slice(0, pattern.indexOf("*")), pattern.slice(pattern.lastIndexOf("*") + 1)];
}
