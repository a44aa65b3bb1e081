import { unlimited, withDefaults } from "../limits/limits.ts";
import { groupLevelsMax, type Group, type GroupChain } from "./group.ts";
import type { Key } from "./key.ts";

/**
 * All groups at one moment. A change makes a new tree, so that a call keeps the groups that it began with. A group whose parents
 * are missing, too many or in a circle has no chain, and its keys cannot be used: limits that are not known must not be ignored.
 */
export class GroupTree {
  private readonly byId: ReadonlyMap<string, Group>;
  private readonly chains = new Map<string, GroupChain | null>();
  /** Groups with the defaults of their parents. Chains share them. */
  private readonly effective = new Map<string, Group>();
  /** A key that changes is a new object, and a change of groups makes a new tree, so an entry here never becomes stale. */
  private readonly keys = new WeakMap<Key, Key>();

  constructor(groups: Iterable<Group>) {
    this.byId = new Map(Array.from(groups, (group) => [group.id, group]));
  }

  get size(): number {
    return this.byId.size;
  }

  get(id: string): Group | null {
    return this.byId.get(id) ?? null;
  }

  all(): Iterable<Group> {
    return this.byId.values();
  }

  /** All groups that have a chain, with the defaults of those above them. */
  effectiveGroups(): readonly Group[] {
    return Array.from(this.byId.keys()).flatMap((id) => this.chainOf(id)?.groups[0] ?? []);
  }

  /** Null if the group does not exist, or its parents do not lead to a root. */
  chainOf(id: string): GroupChain | null {
    const known = this.chains.get(id);
    if (known !== undefined) return known;
    const chain = this.newChain(id);
    this.chains.set(id, chain);
    return chain;
  }

  /** Why a group has no chain; null if it has one. */
  chainProblem(id: string): ChainProblem | null {
    let below: Group | null = null;
    let levels = 0;
    for (let at: string | null = id; at !== null; levels += 1) {
      const group: Group | undefined = this.byId.get(at);
      if (group === undefined) return below === null ? { kind: "missing" } : { kind: "parent_missing", group: below };
      if (levels === groupLevelsMax) return { kind: "too_deep", group: this.byId.get(id)! };
      below = group;
      at = group.parent;
    }
    return null;
  }

  /** The key with its groups and their defaults; null if its group cannot be found. */
  attached(key: Key): Key | null {
    if (key.group === null) return key;
    const known = this.keys.get(key);
    if (known !== undefined) return known;
    const chain = this.chainOf(key.group);
    if (chain === null) return null;
    const attached: Key = { ...key, limits: withDefaults(key.limits, chain.keyDefaults), chain };
    this.keys.set(key, attached);
    return attached;
  }

  /** Whether one group is the other, or somewhere below it. */
  isWithin(id: string, aboveId: string): boolean {
    let at: string | null = id;
    for (let steps = 0; at !== null && steps <= this.byId.size; steps += 1) {
      if (at === aboveId) return true;
      at = this.byId.get(at)?.parent ?? null;
    }
    return false;
  }

  private newChain(id: string): GroupChain | null {
    const upwards: Group[] = [];
    for (let at: string | null = id; at !== null;) {
      const group: Group | undefined = this.byId.get(at);
      if (group === undefined || upwards.length === groupLevelsMax) return null;
      upwards.push(group);
      at = group.parent;
    }
    // From the root down, so that each level finds the defaults of the one above.
    const groups: Group[] = [];
    let keyDefaults = unlimited;
    let above: Group | null = null;
    for (const group of upwards.toReversed()) {
      groups.unshift(this.withParent(group, above));
      keyDefaults = withDefaults(group.defaults.keys, keyDefaults);
      above = group;
    }
    return {
      groups,
      keyDefaults,
      frozen: groups.find(({ frozen }) => frozen) ?? null,
      rootId: groups.at(-1)!.id,
      ids: groups.map((group) => group.id),
    };
  }

  private withParent(group: Group, above: Group | null): Group {
    if (above === null || above.defaults.groups === unlimited) return group;
    let effective = this.effective.get(group.id);
    if (effective === undefined) {
      effective = { ...group, limits: withDefaults(group.limits, above.defaults.groups) };
      this.effective.set(group.id, effective);
    }
    return effective;
  }
}

/** `group`: the one whose parent is missing, or that has too many levels above it. A circle has no end, and is too deep as well. */
export type ChainProblem = { readonly kind: "missing" } | { readonly kind: "parent_missing" | "too_deep"; readonly group: Group };

/** Why a group cannot have this parent; null if it can. */
export function parentProblem(tree: GroupTree, id: string | null, parentId: string | null): ParentProblem | null {
  if (parentId === null) return null;
  if (tree.get(parentId) === null) return "missing";
  if (id !== null && tree.isWithin(parentId, id)) return "circle";
  const above = levelsAbove(tree, parentId);
  return above + (id === null ? 1 : levelsBelow(tree, id)) > groupLevelsMax ? "too_deep" : null;
}

export type ParentProblem = "missing" | "circle" | "too_deep";

/** The number of levels down to this group, itself included; beyond the maximum, it is not counted further. */
function levelsAbove(tree: GroupTree, id: string): number {
  let levels = 0;
  for (let at: string | null = id; at !== null && levels <= groupLevelsMax; levels += 1) at = tree.get(at)?.parent ?? null;
  return levels;
}

/** The number of levels from this group down to the lowest below it, itself included. */
function levelsBelow(tree: GroupTree, id: string): number {
  let levels = 1;
  let parents = new Set([id]);
  while (levels <= groupLevelsMax) {
    const children = new Set<string>();
    for (const group of tree.all()) if (group.parent !== null && parents.has(group.parent)) children.add(group.id);
    if (children.size === 0) return levels;
    levels += 1;
    parents = children;
  }
  return levels;
}

export const noGroups = new GroupTree([]);
