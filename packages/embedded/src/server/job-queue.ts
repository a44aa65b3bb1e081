/** Runs one job at a time. Others wait in a bounded FIFO queue. */
export interface JobQueue {
  /** Reserves a slot before the request is read; `null` if the queue is full. */
  reserve(): JobSlot | null;
  /** In how many milliseconds a slot will probably be free, estimated from the current job and earlier ones. */
  retryAfterMs(): number;
}

export interface JobSlot {
  /** Resolves when the job may start, and rejects if its client leaves before that. */
  start(signal: AbortSignal): Promise<EndJob>;
  /** Releases the slot of a job that does not start. No effect after `start`. */
  release(): void;
}

/** Must be called when the job has ended in any way. Further calls have no effect. */
export type EndJob = () => void;

export function makeJobQueue(waitingMax: number, nowMs: () => number = () => performance.now()): JobQueue {
  const waiting = new Set<() => void>();
  /** Slots of requests that are still being read. */
  let reserved = 0;
  let busy = false;
  let beganMs = 0;
  /** A moving average of the duration of jobs. */
  let averageMs: number | null = null;

  const begin = (): EndJob => {
    busy = true;
    beganMs = nowMs();
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      busy = false;
      const tookMs = nowMs() - beganMs;
      averageMs = averageMs === null ? tookMs : averageMs + (tookMs - averageMs) * lastJobWeight;
      const [next] = waiting;
      next?.();
    };
  };

  const start = (signal: AbortSignal): Promise<EndJob> => {
    if (signal.aborted) return Promise.reject(clientLeft());
    if (!busy) return Promise.resolve(begin());
    return new Promise((resolve, reject) => {
      const next = (): void => {
        waiting.delete(next);
        signal.removeEventListener("abort", onAbort);
        resolve(begin());
      };
      const onAbort = (): void => {
        waiting.delete(next);
        reject(clientLeft());
      };
      waiting.add(next);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  };

  return {
    reserve() {
      // If no job is running, one of the reserved slots is for the job that will run.
      if (waiting.size + reserved >= waitingMax + (busy ? 0 : 1)) return null;
      reserved++;
      let isReserved = true;
      const release = (): void => {
        if (isReserved) reserved--;
        isReserved = false;
      };
      return {
        release,
        start(signal) {
          release();
          return start(signal);
        },
      };
    },
    retryAfterMs() {
      const elapsedMs = busy ? nowMs() - beganMs : 0;
      // A job that takes longer than usual, or the very first one, is expected to take as long again.
      const leftMs = averageMs !== null && elapsedMs < averageMs ? averageMs - elapsedMs : elapsedMs;
      return Math.min(retryAfterMsMax, Math.max(retryAfterMsMin, leftMs));
    },
  };
}

/** The weight of the last job in the average. */
const lastJobWeight = 0.3;
const retryAfterMsMin = 1_000;
/** The estimate is too uncertain to ask for a longer wait. */
const retryAfterMsMax = 60_000;

function clientLeft(): Error {
  return new Error("the client left before its turn came");
}
