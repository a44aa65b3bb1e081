/** Work that can be laid down at each `yield` and taken up again later: when what it yields has come, where it waits for something. */
export type Turns<T> = Generator<Promise<void> | undefined, T, undefined>;

/** Does the same with each of many, and can be laid down in between. */
export function* each<From, To>(values: readonly From[], make: (value: From, at: number) => To): Turns<To[]> {
  const made: To[] = [];
  for (const [at, value] of values.entries()) {
    made.push(make(value, at));
    if (at % perTurn === perTurn - 1) yield;
  }
  return made;
}

/** Some tenths of a millisecond, for what configurations consist of. */
const perTurn = 32;

/** Waits for something, in work that is done in turns. */
export function* awaited<T>(promise: Promise<T>): Turns<T> {
  const come: T[] = [];
  yield promise.then((value) => void come.push(value));
  for (const value of come) return value;
  throw new Error("this work was taken up again before it could be");
}

/** Does the work without a pause. It must be work that waits for nothing. */
export function inOneGo<T>(turns: Turns<T>): T {
  for (;;) {
    const { done, value } = turns.next();
    if (done === true) return value;
    if (value !== undefined) throw new Error("this work waits for something and cannot be done in one go");
  }
}

/** Does the work a little at a time, and lets everything else in the process have its turn in between. */
export async function inTurns<T>(turns: Turns<T>, turnMs = turnUsuallyMs): Promise<T> {
  let endsMs = performance.now() + turnMs;
  for (;;) {
    const { done, value } = turns.next();
    if (done === true) return value;
    if (value === undefined && performance.now() < endsMs) continue;
    await (value ?? new Promise<void>((resolve) => setImmediate(resolve)));
    endsMs = performance.now() + turnMs;
  }
}

/** Short against what a call takes anyway, long against what a pause costs. */
const turnUsuallyMs = 4;
