/** EX_CONFIG of sysexits.h. */
export const configExitCode = 78;

/** Why nothing can be started, in words for whoever tried, and what to exit with. */
export class StartProblem extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
  ) {
    super(message);
  }
}
