import type { Limits } from "../limits/limits.ts";

/** An organisation, a team or a project: what all of its keys use together is limited. Groups form a tree. */
export interface Group {
  readonly id: string;
  readonly name: string;
  readonly kind: GroupKind;
  /** The id of the group above it. */
  readonly parent: string | null;
  readonly limits: Limits;
  /** While it is frozen, none of its keys may be used. */
  readonly frozen: boolean;
  readonly defaults: GroupDefaults;
}

export type GroupKind = "organisation" | "team" | "project" | "group";

export const groupKinds = ["organisation", "team", "project", "group"] as const satisfies readonly GroupKind[];

/** Limits of each child for itself, where the child sets none. */
export interface GroupDefaults {
  /** For every key in the group, and in the groups below it unless they have a default of their own. */
  readonly keys: Limits;
  /** For every group directly below it. */
  readonly groups: Limits;
}

/** Levels of groups above a key, such as organisation, team and project. */
export const groupLevelsMax = 3;

/** A group and those above it, as a key or a group below finds them. */
export interface GroupChain {
  /** The nearest first, each with the limits that apply to it, defaults included. */
  readonly groups: readonly Group[];
  /** What applies to a key of the nearest group where the key itself sets nothing. */
  readonly keyDefaults: Limits;
  /** The nearest group that is frozen. */
  readonly frozen: Group | null;
  /** The id of the last one. */
  readonly rootId: string;
  readonly ids: readonly string[];
}

/** The prefix of the ids of groups in the configuration. Names in the store must not begin with it. */
export const fileGroupPrefix = "file-group:";

/** How the ids of groups in the store begin. No id of a key does. */
export const groupIdPrefix = "grp_";

/** Whether an owner of limits is a group, and not a key. */
export function isGroupId(id: string): boolean {
  return id.startsWith(groupIdPrefix) || id.startsWith(fileGroupPrefix);
}

/** How messages name a group: `team web`. */
export function groupTitle({ kind, name }: Pick<Group, "kind" | "name">): string {
  return `${kind} ${name}`;
}
