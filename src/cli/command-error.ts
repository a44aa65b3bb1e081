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

/** Why a file that was asked for could not be written, and what to do about it. */
export function unwritable(file: string, error: unknown): string {
  const { code } = error as { readonly code?: string };
  return `${file} could not be written (${code ?? String(error)}). ${writeFixes.get(code ?? "") ?? "Name another file."}`;
}

/** Why a new file was not written. It is never written over another, which may be in use. */
export function unwritten(
  file: string,
  error: unknown,
  occupied = `${file} exists already: remove it, or name another file.`,
): CommandError {
  const isTaken = (error as { readonly code?: string }).code === "EEXIST";
  return isTaken ? new CommandError(occupied, exitCodes.usage) : new CommandError(unwritable(file, error));
}

const forbidden = "This user may not write there: name a file in another folder, or run it as a user who may.";
const writeFixes: ReadonlyMap<string, string> = new Map([
  ["ENOENT", "Its folder does not exist: create it, or name another file."],
  ["ENOTDIR", "A part of its path is a file: name another one."],
  ["EISDIR", "It is a folder: name a file in it."],
  ["ENOSPC", "The disk is full: free some space, or name a file on another disk."],
  ["EROFS", "The disk is read-only: name a file on another one."],
  ["EACCES", forbidden],
  ["EPERM", forbidden],
]);

/** Returns the result of a management action, and throws its error. */
export function orThrow<Result>(result: Result | ManageError): Result {
  if (!(result instanceof ManageError)) return result;
  throw new CommandError(result.message, result.code === "invalid_value" ? exitCodes.usage : exitCodes.failure);
}
