import { groupTitle, type Group } from "../../keys/group.ts";
import { failure, type Failure } from "../../operations/failure.ts";

/** Why a call is refused, or ended, while a group of its key is frozen. */
export function groupFrozen(group: Pick<Group, "id" | "kind" | "name">): Failure {
  return failure("key_revoked", `group ${group.id} is frozen`, {
    message: `The ${groupTitle(group)} is frozen: its keys cannot be used until the operator of this gateway unfreezes it.`,
    status: 403,
    type: "permission_error",
    code: "group_frozen",
  });
}

/** The limits of a key are not known without its group, so that it cannot be used. */
export const groupMissing = failure("invalid_request", "the group of the key does not exist", {
  message: "The group of this key does not exist any more. Ask the operator of this gateway to put the key into another group.",
  status: 403,
  type: "permission_error",
  code: "group_missing",
});
