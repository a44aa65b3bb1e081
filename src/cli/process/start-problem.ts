/** EX_CONFIG of sysexits.h. */
export const configExitCode = 78;

/** Why the gateway cannot start, for the operator, and the exit code. */
export class StartProblem extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
  ) {
    super(message);
  }
}
