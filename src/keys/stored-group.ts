import { unlimited } from "../limits/limits.ts";
import type { Group, GroupDefaults } from "./group.ts";

/** A group in the store, with its history. */
export interface StoredGroup extends Group {
  readonly note: string | null;
  readonly createdMs: number;
  readonly frozenMs: number | null;
}

/** What is given when a group is created; the gateway adds the rest. */
export type NewGroup = Pick<StoredGroup, "name" | "kind" | "parent" | "note" | "limits" | "defaults"> & { readonly frozen?: boolean };

/** The defaults of a new group: it limits nothing. */
export const defaultGroup: Omit<NewGroup, "name"> = {
  kind: "group",
  parent: null,
  note: null,
  limits: unlimited,
  defaults: { keys: unlimited, groups: unlimited },
};

/** What can be changed of an existing group. Each kind of defaults can be changed alone. */
export interface GroupChange extends Partial<Omit<NewGroup, "defaults">> {
  readonly defaults?: Partial<GroupDefaults>;
}
