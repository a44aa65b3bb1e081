/**
 * How many calls there were in the last while, and how many of them bore a mark (a retry, an accepted request, a hedge).
 * Immutable and bounded: time is cut into slots, and a slot that has left the span is forgotten. The span reaches back at
 * least `slots - 1` whole slots, so a limit that must hold over ten seconds keeps eleven slots of one.
 */
export interface Tally {
  readonly slot: number;
  /** In the current slot. */
  readonly calls: number;
  readonly marks: number;
  /** The slots before it, oldest first, and their sums. */
  readonly older: readonly Slot[];
  readonly olderCalls: number;
  readonly olderMarks: number;
}

interface Slot {
  readonly slot: number;
  readonly calls: number;
  readonly marks: number;
}

export interface Span {
  readonly slotMs: number;
  readonly slots: number;
}

/** The same for all that have none: there are as many tallies as there are names of models. */
const none: readonly Slot[] = [];

export const newTally: Tally = { slot: 0, calls: 0, marks: 0, older: none, olderCalls: 0, olderMarks: 0 };

export function counted(tally: Tally, span: Span, nowMs: number, more: { calls: number; marks: number }): Tally {
  const { slot, calls, marks, older, olderCalls, olderMarks } = rolled(tally, span, nowMs);
  return { slot, calls: calls + more.calls, marks: marks + more.marks, older, olderCalls, olderMarks };
}

/** The tally as of now: what has left the span is gone. */
export function rolled(tally: Tally, span: Span, nowMs: number): Tally {
  const slot = Math.floor(nowMs / span.slotMs);
  if (slot === tally.slot) return tally;
  const last: Slot = { slot: tally.slot, calls: tally.calls, marks: tally.marks };
  const older = [...tally.older, last].filter((past) => past.slot > slot - span.slots);
  let olderCalls = 0;
  let olderMarks = 0;
  for (const past of older) {
    olderCalls += past.calls;
    olderMarks += past.marks;
  }
  return { slot, calls: 0, marks: 0, older: older.length === 0 ? none : older, olderCalls, olderMarks };
}

export function callsIn(tally: Tally): number {
  return tally.calls + tally.olderCalls;
}

export function marksIn(tally: Tally): number {
  return tally.marks + tally.olderMarks;
}
