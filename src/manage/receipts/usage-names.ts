import type { UsageRow } from "../../usage/usage-row.ts";
import type { ManageContext } from "../context.ts";
import { groupNames } from "../group-search.ts";
import { keyNames } from "../key-search.ts";

/** The names of the keys and groups that sums are grouped by. A key or group that is no longer known has none. */
export async function usageNames(
  context: ManageContext,
  rows: readonly Pick<UsageRow, "group">[],
  keysMax = namesMax,
): Promise<ReadonlyMap<string, string>> {
  const keys = rows.flatMap(({ group }) => group.key ?? []);
  const groups = rows.flatMap(({ group }) => group.group ?? []);
  return new Map([...(await keyNames(context, keys, keysMax)), ...(groups.length === 0 ? [] : await groupNames(context, groups))]);
}

/** The names of at most this many keys are looked up. */
export const namesMax = 2_000;
