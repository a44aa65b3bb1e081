import { ManageError } from "../manage/error.ts";

/** Codes of sysexits.h, so that scripts can tell who has to act. */
export const exitCodes = { failure: 1, usage: 64, unavailable: 69, config: 78, interrupt: 130 } as const;

/** Why a command was not carried out: what is wrong, and how to fix it. */
export class CommandError extends Error {
  constructor(
    message: string,
    readonly exitCode: number = exitCodes.failure,
  ) {
    super(message);
    this.name = "CommandError";
  }
}

/** The result of a management action; its error ends the command. */
export function orThrow<Result>(result: Result | ManageError): Result {
  if (!(result instanceof ManageError)) return result;
  throw new CommandError(result.message, result.code === "invalid_value" ? exitCodes.usage : exitCodes.failure);
}
