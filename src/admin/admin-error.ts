import type { ManageError, ManageErrorCode } from "../manage/error.ts";

/** Why a request is refused. It is an expected outcome, so handlers return it instead of throwing. The message says how to fix it. */
export class AdminError {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly message: string,
    /** The field, parameter or header it is about. */
    readonly param: string | null = null,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {}

  /** The same with the commands in its message as they have to be typed. */
  typed(asTyped: (text: string) => string): AdminError {
    return new AdminError(this.status, this.code, asTyped(this.message), this.param, this.headers);
  }
}

/** A field or parameter with an invalid value. */
export function invalid(param: string | null, message: string): AdminError {
  return new AdminError(400, "invalid_value", message, param);
}

/** The same answer for what never existed, what was removed and what the caller may not see. */
export function notFound(what: string): AdminError {
  return new AdminError(404, "not_found", `There is no such ${what}.`);
}

/** The error of a management action as an error of the API. */
export function adminErrorOf({ code, message, field }: ManageError): AdminError {
  return new AdminError(manageStatuses[code], code, message, field);
}

/** The HTTP status of each error of a management action. */
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
