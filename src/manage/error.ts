/** Why an action was not carried out. The codes are those of the admin API; the command line turns them into exit codes. */
export type ManageErrorCode =
  | "invalid_value"
  | "conflict"
  | "in_file"
  | "not_found"
  | "invalid_channel"
  | "url_not_allowed"
  | "secrets_needed"
  | "precondition_failed"
  | "not_in_use";

/**
 * An expected outcome, so actions return it instead of throwing. Errors of the store itself reject with a `StorageError`. The message
 * must make sense in the admin API and on the command line.
 */
export class ManageError {
  constructor(
    readonly code: ManageErrorCode,
    readonly message: string,
    /** The field it is about, by its name in the admin API. */
    readonly field: string | null = null,
  ) {}
}

/** Somebody else was quicker, and what they changed must not be lost. */
export function changedMeanwhile(what: "channel" | "group" | "key"): ManageError {
  return new ManageError(
    "precondition_failed",
    `The ${what} has changed since you read it: read it again before you change it.`,
    "if-match",
  );
}
