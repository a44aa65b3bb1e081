import { groupLevelsMax, type Group } from "../../keys/group.ts";

/** Where a group shall be. The parent is given by its name or its id. */
export interface GroupPlace {
  readonly name: string;
  readonly parent: string | null;
}

export interface GroupOrder<Entry> {
  readonly entries: readonly Entry[];
  /** Those that are only possible when the groups that go have gone. */
  readonly late: readonly Entry[];
}

/**
 * An order of changes in which none of them makes a circle or too many levels on the way, although all groups are where they shall be
 * in the end. What is possible in no order stays as it is, and is refused when it is tried.
 */
export function possibleOrder<Entry>(
  entries: readonly Entry[],
  placeOf: (entry: Entry) => GroupPlace,
  existing: readonly Group[],
  removed: readonly Group[],
): GroupOrder<Entry> {
  const places = new GroupPlaces(existing);
  const early = places.takeAll(entries, placeOf);
  if (early.left.length === 0 || removed.length === 0) return { entries: [...early.taken, ...early.left], late: [] };
  for (const { id } of removed) places.remove(id);
  const late = places.takeAll(early.left, placeOf);
  return { entries: early.taken, late: [...late.taken, ...late.left] };
}

/** Where each group is, step by step. */
class GroupPlaces {
  private readonly parents = new Map<string, string | null>();
  private readonly children = new Map<string, Set<string>>();
  /** By names; a group of the configuration goes before one of the store, as everywhere. */
  private readonly ids = new Map<string, string>();

  constructor(existing: readonly Group[]) {
    for (const { id, name, parent } of existing) {
      if (!this.ids.has(name)) this.ids.set(name, id);
      this.put(id, parent);
    }
  }

  /** Makes all changes that are possible, in the given order as far as that is. */
  takeAll<Entry>(
    entries: readonly Entry[],
    placeOf: (entry: Entry) => GroupPlace,
  ): { readonly taken: readonly Entry[]; readonly left: readonly Entry[] } {
    const taken: Entry[] = [];
    let left = entries;
    for (;;) {
      const stuck = left.filter((entry) => {
        if (!this.take(placeOf(entry))) return true;
        taken.push(entry);
        return false;
      });
      if (stuck.length === 0 || stuck.length === left.length) return { taken, left: stuck };
      left = stuck;
    }
  }

  remove(id: string): void {
    const above = this.parents.get(id) ?? null;
    if (above !== null) this.children.get(above)?.delete(id);
    this.parents.delete(id);
  }

  private take({ name, parent }: GroupPlace): boolean {
    const id = this.ids.get(name) ?? name;
    const above = parent === null ? null : this.parents.has(parent) ? parent : (this.ids.get(parent) ?? null);
    if (parent !== null && above === null) return false;
    const isThere = this.parents.has(id) && this.parents.get(id) === above;
    if (!isThere && above !== null && !this.fits(id, above)) return false;
    this.ids.set(name, id);
    this.put(id, above);
    return true;
  }

  private fits(id: string, above: string): boolean {
    let levels = this.levelsDown(id, groupLevelsMax);
    for (let at: string | null = above; at !== null && levels <= groupLevelsMax; at = this.parents.get(at) ?? null) {
      if (at === id) return false;
      levels += 1;
    }
    return levels <= groupLevelsMax;
  }

  /** The number of levels from a group down to the lowest below it, itself included; at most one more than `max`. */
  private levelsDown(id: string, max: number): number {
    if (max === 0) return 1;
    let below = 0;
    for (const child of this.children.get(id) ?? []) below = Math.max(below, this.levelsDown(child, max - 1));
    return 1 + below;
  }

  private put(id: string, above: string | null): void {
    const before = this.parents.get(id) ?? null;
    if (before !== null) this.children.get(before)?.delete(id);
    this.parents.set(id, above);
    if (above === null) return;
    const siblings = this.children.get(above) ?? new Set();
    this.children.set(above, siblings.add(id));
  }
}
