/** One job at a time; the others wait, up to a bound, in the order in which they came. */
export interface Turns {
  /** Whether one more would be turned away. */
  isFull(): boolean;
  /** `null`: too many wait already. Else it resolves when it is the job's turn, and rejects when its client leaves before. */
  take(signal: AbortSignal): Promise<EndTurn> | null;
}

/** Must be called when the job is done, however it ended. Calling it again does nothing. */
export type EndTurn = () => void;

export function makeTurns(waitingMax: number): Turns {
  const waiting = new Set<() => void>();
  let busy = false;

  const begin = (): EndTurn => {
    busy = true;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      busy = false;
      const [next] = waiting;
      next?.();
    };
  };

  return {
    isFull: () => busy && waiting.size >= waitingMax,
    take(signal) {
      if (!busy) return signal.aborted ? Promise.reject(left()) : Promise.resolve(begin());
      if (waiting.size >= waitingMax) return null;
      return new Promise((resolve, reject) => {
        const start = (): void => {
          waiting.delete(start);
          signal.removeEventListener("abort", leave);
          resolve(begin());
        };
        const leave = (): void => {
          waiting.delete(start);
          reject(left());
        };
        if (signal.aborted) {
          reject(left());
          return;
        }
        waiting.add(start);
        signal.addEventListener("abort", leave, { once: true });
      });
    },
  };
}

function left(): Error {
  return new Error("the client left before its turn came");
}
