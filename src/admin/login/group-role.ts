import type { Role } from "../../gateway/storage.ts";
import type { OidcServices } from "../services.ts";

export interface GrantedRole {
  readonly role: Role;
  /** The name or id of the group that a group admin manages; null for other roles. */
  readonly group: string | null;
}

/** The highest role that the groups of a person have; null if they have none. Groups are compared exactly. */
export function groupRole(
  groups: readonly string[],
  { adminGroups, groupAdmins, viewerGroups }: Pick<OidcServices, "adminGroups" | "groupAdmins" | "viewerGroups">,
): GrantedRole | null {
  const own = new Set(groups);
  if (adminGroups.some((group) => own.has(group))) return { role: "admin", group: null };
  const [managed] = [...groupAdmins].filter(([group]) => own.has(group));
  if (managed !== undefined) return { role: "group_admin", group: managed[1] };
  return viewerGroups.includes("*") || viewerGroups.some((group) => own.has(group)) ? { role: "viewer", group: null } : null;
}
