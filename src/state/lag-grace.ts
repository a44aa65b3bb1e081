export interface Clock {
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
}

/**
 * A timer for those who wait for an answer. If this process itself was delayed meanwhile, by its own work or by a busy machine, the
 * answer may have arrived unread, so the timer fires a moment later.
 */
export function timerWithLagGrace({ nowMs, after }: Clock, ms: number, then: () => void): () => void {
  const dueMs = nowMs() + ms;
  let cancel = after(ms, () => {
    if (nowMs() - dueMs < delayedMs) then();
    else cancel = after(graceMs, then);
  });
  return () => cancel();
}

/** A timer that is this late was delayed by the process itself. */
const delayedMs = 15;
const graceMs = 5;
