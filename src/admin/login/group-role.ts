import type { Role } from "../../gateway/storage.ts";
import type { OidcServices } from "../services.ts";

export interface GrantedRole {
  readonly role: Role;
  /** The names or ids of the groups of which a group admin manages one; none for other roles. */
  readonly groups: readonly string[];
}

/** The highest role that the groups of a person have; null if they have none. Groups are compared exactly. */
export function groupRole(
  groups: readonly string[],
  { adminGroups, groupAdmins, viewerGroups }: Pick<OidcServices, "adminGroups" | "groupAdmins" | "viewerGroups">,
): GrantedRole | null {
  const own = new Set(groups);
  if (adminGroups.some((group) => own.has(group))) return { role: "admin", groups: [] };
  const managed = [...groupAdmins].filter(([group]) => own.has(group)).map(([, name]) => name);
  if (managed.length > 0) return { role: "group_admin", groups: managed };
  return viewerGroups.includes("*") || viewerGroups.some((group) => own.has(group)) ? { role: "viewer", groups: [] } : null;
}
