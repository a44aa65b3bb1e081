import { isAlias, isMap, isScalar, isSeq, type Alias } from "yaml";
import { variableNames } from "./interpolate.ts";
import type { Path } from "./findings/problem.ts";

/** What each alias of a file stands for. */
export type AliasTargets = Map<Alias, unknown>;

/** The line of a setting, or of what is around it as far as the path exists. Only used when there is something to report. */
export function lineAt(root: unknown, targets: AliasTargets, path: Path, lineOf: (offset: number) => number): number | null {
  const { offset } = follow(root, targets, path);
  return offset === undefined ? null : lineOf(offset);
}

/** The variables that a setting is made of, with those of the values inside it. */
export function variablesAt(root: unknown, targets: AliasTargets, path: Path): readonly string[] {
  const { node, isWhole } = follow(root, targets, path);
  return isWhole ? [...new Set(variablesIn(node, targets, 0))] : [];
}

/** Far more than a setting has, so that aliases cannot expand without end. */
const depthMax = 8;

function variablesIn(node: unknown, targets: AliasTargets, depth: number): readonly string[] {
  if (depth > depthMax) return [];
  if (isAlias(node)) return variablesIn(targets.get(node), targets, depth + 1);
  if (isScalar(node)) return typeof node.value === "string" ? variableNames(node.value) : [];
  if (isSeq(node)) return node.items.flatMap((item) => variablesIn(item, targets, depth + 1));
  return isMap(node) ? node.items.flatMap(({ value }) => variablesIn(value, targets, depth + 1)) : [];
}

interface FollowedPath {
  readonly node: unknown;
  readonly offset: number | undefined;
  readonly isWhole: boolean;
}

function follow(root: unknown, targets: AliasTargets, path: Path): FollowedPath {
  let node = root;
  let offset = offsetOf(node);
  for (const step of path) {
    if (isAlias(node)) node = targets.get(node);
    if (isMap(node)) {
      const pair = node.items.find((item) => keyOf(item.key) === step);
      if (pair === undefined) return { node, offset, isWhole: false };
      offset = offsetOf(pair.key) ?? offset;
      node = pair.value;
    } else if (isSeq(node) && typeof step === "number" && step < node.items.length) {
      node = node.items[step];
      offset = offsetOf(node) ?? offset;
    } else return { node, offset, isWhole: false };
  }
  return { node, offset, isWhole: true };
}

export function offsetOf(node: unknown): number | undefined {
  if (typeof node !== "object" || node === null || !("range" in node)) return undefined;
  const range = node.range as readonly number[] | null | undefined;
  return range?.[0];
}

/** A key that could reach the prototype of an object is rejected. */
export function keyOf(node: unknown): string | null {
  if (!isScalar(node)) return null;
  const key = typeof node.value === "string" ? node.value : (node.source ?? null);
  return key === "__proto__" ? null : key;
}
