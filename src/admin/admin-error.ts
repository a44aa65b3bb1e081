import type { ManageError, ManageErrorCode } from "../manage/error.ts";

/** What a request is refused with: an expected outcome, so handlers return it instead of throwing. The message names the mend. */
export class AdminError {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly message: string,
    /** The field, parameter or header it is about. */
    readonly param: string | null = null,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {}
}

/** A field or parameter that is not what it must be. */
export function invalid(param: string | null, message: string): AdminError {
  return new AdminError(400, "invalid_value", message, param);
}

/** One answer for what never was, what is gone and what is not for the asker to see. */
export function notFound(what: string): AdminError {
  return new AdminError(404, "not_found", `There is no such ${what}.`);
}

/** A management action's error in the words of the API. */
export function adminErrorOf({ code, message, field }: ManageError): AdminError {
  return new AdminError(manageStatuses[code], code, message, field);
}

/** The status of each error that a management action can end with. */
export const manageStatuses: Readonly<Record<ManageErrorCode, number>> = {
  invalid_value: 400,
  conflict: 409,
  in_file: 409,
  not_found: 404,
  invalid_channel: 400,
  url_not_allowed: 400,
  secrets_needed: 400,
  precondition_failed: 412,
  not_in_use: 409,
};
