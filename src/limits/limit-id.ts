/**
 * The ids of limits per minute and of concurrency limits begin with a word that names whose limit it is: `OWNER tokens`, or
 * `ROOT>OWNER tokens` for a key or a group in the tree of the group ROOT. All limits of one call have the same root, so that a
 * shared store can put them on one node, and counts of different owners are locked separately.
 */
export function limitOwner(id: string, rootId: string | null): string {
  return rootId === null ? id : `${rootId}${separator}${id}`;
}

/** Which of its owner's budgets one is: the pattern of its models, `#` and its name if it has a selector, or nothing if it is for everything. */
export function budgetLabel(models: string | null, name: string | null): string {
  if (name !== null) return `#${name}`;
  // No name of a budget begins with `#`, so that no rule for models has the label of one.
  return models?.startsWith("#") === true ? `#${models}` : (models ?? "");
}

/** The id of a budget, which names it in the store and wherever its refusals are told. */
export function budgetId(ownerId: string, models: string | null, name: string | null): string {
  const label = budgetLabel(models, name);
  return label === "" ? ownerId : `${ownerId} ${label}`;
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
