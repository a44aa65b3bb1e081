import { ManageError } from "../manage/error.ts";

/** Exit codes of sysexits.h, by which scripts can tell what went wrong. */
export const exitCodes = { failure: 1, usage: 64, unavailable: 69, permission: 77, config: 78, interrupt: 130 } as const;

/** Ends a command. The message says what is wrong and how to fix it. */
export class CommandError extends Error {
  constructor(
    message: string,
    readonly exitCode: number = exitCodes.failure,
  ) {
    super(message);
    this.name = "CommandError";
  }
}

/** Returns the result of a management action, and throws its error. */
export function orThrow<Result>(result: Result | ManageError): Result {
  if (!(result instanceof ManageError)) return result;
  throw new CommandError(result.message, result.code === "invalid_value" ? exitCodes.usage : exitCodes.failure);
}
