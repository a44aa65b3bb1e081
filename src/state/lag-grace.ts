export interface Clock {
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
}

/**
 * Rings after so long, for those who wait for an answer. Where this process itself was held up meanwhile, by its own work or by a
 * busy machine, the answer may lie there unread: then it is looked at first.
 */
export function timerWithLagGrace({ nowMs, after }: Clock, ms: number, then: () => void): () => void {
  const dueMs = nowMs() + ms;
  let cancel = after(ms, () => {
    if (nowMs() - dueMs < heldUpMs) then();
    else cancel = after(hearingMs, then);
  });
  return () => cancel();
}

/** A timer that is so late was not kept waiting by anything small. */
const heldUpMs = 15;
const hearingMs = 5;
