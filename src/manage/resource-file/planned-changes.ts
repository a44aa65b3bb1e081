import type { ManageContext } from "../context.ts";
import { ManageError } from "../error.ts";
import { plannedChannels } from "./channel-plan.ts";
import type { DesiredResources, PlannedChange, ResourceContext } from "./desired-resources.ts";
import { groupNamesOf, groupReferenceProblem, plannedGroups } from "./group-plan.ts";
import { plannedKeys } from "./key-plan.ts";
import { plannedPrices } from "./price-plan.ts";

/** What differs between a file and the store. With `prune`, also what only the store has, in the lists that the file has. */
export async function plannedChanges(
  context: ResourceContext,
  desired: DesiredResources,
  prune: boolean,
): Promise<readonly PlannedChange[] | ManageError> {
  const problem = hashProblem(context, desired);
  if (problem !== null) return problem;
  const stored = await context.storage.groups.list();
  const groups = groupReferenceProblem(context, desired, stored) ?? plannedGroups(context, desired.groups, stored, prune);
  if (groups instanceof ManageError) return groups;
  const plans = [
    await plannedChannels(context, desired.channels, prune),
    await plannedPrices(context, desired.prices, prune),
    groups.changes,
    await plannedKeys(context, desired.keys, prune, groupNamesOf(context, stored, desired.groups)),
    // A group with keys cannot be deleted.
    groups.removals,
  ];
  const refused = plans.find((plan) => plan instanceof ManageError);
  return refused ?? plans.flatMap((plan) => (plan instanceof ManageError ? [] : plan));
}

/** Hashes are keyed: those of another store would never match what a client sends. */
function hashProblem(context: ManageContext, { storeId, keys }: DesiredResources): ManageError | null {
  const hashed = keys?.find(({ token }) => token !== null && typeof token !== "string");
  if (hashed === undefined || storeId === storeIdOf(context)) return null;
  return new ManageError(
    "invalid_value",
    storeId === null
      ? "The file has hashes of keys and no store_id, without which nobody knows whether they fit this store."
      : "The hashes of keys in this file were made by another store, so no client could use them: give the tokens, as in key: ${NAME} (sluice config export --key-variables).",
    "store_id",
  );
}

/** Identifies the key of the store's hashes, which its backups share, and tells nothing about it. */
export function storeIdOf({ digest }: Pick<ManageContext, "digest">): string {
  return digest("sluice store id").slice(0, idCharacters);
}

const idCharacters = 16;
