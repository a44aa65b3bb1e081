import type { ConsolePage } from "../../admin/console/pages.ts";
import type { SignedIn } from "./api.ts";

/** The pages whose routes show the admin of a group what belongs to that group. All others are about the whole gateway. */
const groupPages: ReadonlySet<ConsolePage> = new Set([
  "requests",
  "request",
  "usage",
  "outcomes",
  "keys",
  "key",
  "groups",
  "group",
  "history",
  "audit",
]);

export function isPageFor(role: SignedIn["role"] | null, page: ConsolePage): boolean {
  return role !== "group_admin" || groupPages.has(page);
}

/** The admin of a group has no settings, and so another way to the history. */
export function isInNavigation(role: SignedIn["role"] | null, page: ConsolePage): boolean {
  return page === "history" ? role === "group_admin" : isPageFor(role, page);
}
