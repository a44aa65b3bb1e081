import type { ChainProblem } from "../../keys/group-tree.ts";
import { groupLevelsMax, groupTitle, type Group } from "../../keys/group.ts";
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

/** The limits of a key are not known without its group and all groups above it, so that it cannot be used. */
export function groupMissing(problem: ChainProblem | null): Failure {
  const { reason, message } = missingWords(problem);
  return failure("invalid_request", reason, { message, status: 403, type: "permission_error", code: "group_missing" });
}

/** Null: what was missing has been found meanwhile. */
function missingWords(problem: ChainProblem | null): { readonly reason: string; readonly message: string } {
  switch (problem?.kind) {
    case "parent_missing": {
      const title = groupTitle(problem.group);
      return {
        reason: `the parent of group ${problem.group.id} does not exist`,
        message: `The group above the ${title} does not exist any more, so that the limits of this key are not known. Ask the operator of this gateway to put it back, or to move the ${title} to another place.`,
      };
    }
    case "too_deep": {
      const title = groupTitle(problem.group);
      return {
        reason: `group ${problem.group.id} has too many levels above it`,
        message: `The ${title} of this key is too deep: groups have at most ${groupLevelsMax} levels. Ask the operator of this gateway to move the ${title}, or one above it, higher up.`,
      };
    }
    case "missing":
    case undefined:
      return {
        reason: "the group of the key does not exist",
        message: "The group of this key does not exist any more. Ask the operator of this gateway to put the key into another group.",
      };
  }
}
