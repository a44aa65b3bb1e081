export interface StaggeredOptions<Result> {
  /** How long one candidate is waited for before the next one is tried as well. */
  readonly staggerMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Takes what a slower candidate brings after another one was chosen. */
  readonly discard: (late: Result) => void;
}

/**
 * Tries candidates in their order, the next one when the one before has failed or takes long, and resolves with what the first
 * success brings. So one that hangs costs a moment and not the whole time that a caller has. Rejects with all errors, in the
 * order of the candidates.
 */
export function firstToSucceed<Candidate, Result>(
  candidates: readonly Candidate[],
  attempt: (candidate: Candidate) => Promise<Result>,
  { staggerMs, after, discard }: StaggeredOptions<Result>,
): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  const errors: unknown[] = [];
  let [next, failed, isOver] = [0, 0, false];
  let cancel = (): void => {};
  const end = (): void => {
    isOver = true;
    cancel();
  };
  const tryNext = (): void => {
    cancel();
    if (isOver || next >= candidates.length) return;
    const at = next++;
    cancel = after(staggerMs, tryNext);
    attempt(candidates[at]!).then(
      (result) => {
        if (isOver) return discard(result);
        end();
        resolve(result);
      },
      (error: unknown) => {
        errors[at] = error;
        failed += 1;
        if (failed < candidates.length) return tryNext();
        end();
        reject(new AllFailed(errors));
      },
    );
  };
  tryNext();
  if (candidates.length === 0) reject(new AllFailed([]));
  return promise;
}

export class AllFailed extends Error {
  constructor(readonly errors: readonly unknown[]) {
    super("Every candidate failed.");
    this.name = "AllFailed";
  }
}
