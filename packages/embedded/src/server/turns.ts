/** One job at a time; the others wait, up to a bound, in the order in which they came. */
export interface Turns {
  /** A place among those that wait, from before the request is read; `null`: too many have one already. */
  enter(): Place | null;
  /** In how many milliseconds one more will probably find a place: when the job at work is done, as far as can be told. */
  roomMs(): number;
}

export interface Place {
  /** Resolves when it is the job's turn, and rejects when its client leaves before. */
  turn(signal: AbortSignal): Promise<EndTurn>;
  /** Gives the place back, where there is nothing to do. After `turn` it has no effect. */
  leave(): void;
}

/** Must be called when the job is done, however it ended. Calling it again does nothing. */
export type EndTurn = () => void;

export function makeTurns(waitingMax: number, nowMs: () => number = () => performance.now()): Turns {
  const waiting = new Set<() => void>();
  /** Have a place, and are still being read. */
  let entering = 0;
  let busy = false;
  let beganMs = 0;
  /** What a job took lately. */
  let typicalMs: number | null = null;

  const begin = (): EndTurn => {
    busy = true;
    beganMs = nowMs();
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      busy = false;
      const tookMs = nowMs() - beganMs;
      typicalMs = typicalMs === null ? tookMs : typicalMs + (tookMs - typicalMs) * newest;
      const [next] = waiting;
      next?.();
    };
  };

  const turn = (signal: AbortSignal): Promise<EndTurn> => {
    if (signal.aborted) return Promise.reject(left());
    if (!busy) return Promise.resolve(begin());
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
      waiting.add(start);
      signal.addEventListener("abort", leave, { once: true });
    });
  };

  return {
    enter() {
      // One of those that enter takes the turn where nobody has it.
      if (waiting.size + entering >= waitingMax + (busy ? 0 : 1)) return null;
      entering++;
      let entered = true;
      const leave = (): void => {
        if (entered) entering--;
        entered = false;
      };
      return {
        leave,
        turn(signal) {
          leave();
          return turn(signal);
        },
      };
    },
    roomMs() {
      const elapsedMs = busy ? nowMs() - beganMs : 0;
      // One that takes longer than usual, or of which nothing is known, will probably take as long again.
      const leftMs = typicalMs !== null && elapsedMs < typicalMs ? typicalMs - elapsedMs : elapsedMs;
      return Math.min(roomMsMax, Math.max(roomMsMin, leftMs));
    },
  };
}

/** How much the last job counts in what is typical. */
const newest = 0.3;
const roomMsMin = 1_000;
/** Nobody is sent away for longer on a guess. */
const roomMsMax = 60_000;

function left(): Error {
  return new Error("the client left before its turn came");
}
