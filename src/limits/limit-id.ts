/**
 * The ids of limits per minute and of concurrency limits begin with a word that names whose limit it is: `OWNER tokens`, or
 * `ROOT>OWNER tokens` for a key or a group in the tree of the group ROOT. All limits of one call have the same root, so that a
 * shared store can put them on one node, and counts of different owners are locked separately.
 */
export function limitOwner(id: string, rootId: string | null): string {
  return rootId === null ? id : `${rootId}${separator}${id}`;
}

/** The id of a budget: of one for the models of a pattern, of one with a selector by its name, or of the one for everything else. */
export function budgetId(ownerId: string, models: string | null, name: string | null): string {
  if (name !== null) return `${ownerId} #${name}`;
  return models === null ? ownerId : `${ownerId} ${models}`;
}

/** The first word of a limit's id: what its counts are locked by. */
export function ownerOfLimit(id: string): string {
  const end = id.indexOf(" ");
  return end < 0 ? id : id.slice(0, end);
}

/** The owner of all limits of the same calls: the root of a tree of groups, or a key without a group. */
export function rootOfLimit(id: string): string {
  const owner = ownerOfLimit(id);
  const end = owner.indexOf(separator);
  return end < 0 ? owner : owner.slice(0, end);
}

const separator = ">";
