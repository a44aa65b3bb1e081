/**
 * How many calls there were in the last while, and how many of them bore a mark (a retry, an accepted request, a hedge).
 * Bounded: time is cut into slots, and a slot that has left the span is forgotten. The span reaches back at least
 * `slots - 1` whole slots, so a limit that must hold over ten seconds keeps eleven slots of one. A changing value with
 * one owner, because every call counts in several of them. The clock is one that never jumps.
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

type Owned = { -readonly [K in keyof Tally]: Tally[K] };

/** The same for all that have none: there are as many tallies as there are names of models. */
const none: readonly Slot[] = [];

export function newTally(): Tally {
  return { slot: 0, calls: 0, marks: 0, older: none, olderCalls: 0, olderMarks: 0 };
}

export function count(tally: Tally, span: Span, nowMs: number, calls: number, marks: number): void {
  const owned = tally as Owned;
  roll(owned, span, nowMs);
  owned.calls += calls;
  owned.marks += marks;
}

export function callsIn(tally: Tally, span: Span, nowMs: number): number {
  roll(tally, span, nowMs);
  return tally.calls + tally.olderCalls;
}

export function marksIn(tally: Tally, span: Span, nowMs: number): number {
  roll(tally, span, nowMs);
  return tally.marks + tally.olderMarks;
}

/** Moves on to the slot of this moment: what has left the span is gone. */
function roll(tally: Owned, span: Span, nowMs: number): void {
  const slot = Math.floor(nowMs / span.slotMs);
  if (slot <= tally.slot) return;
  const last: Slot = { slot: tally.slot, calls: tally.calls, marks: tally.marks };
  const older = [...tally.older, last].filter((past) => past.slot > slot - span.slots);
  tally.slot = slot;
  tally.calls = 0;
  tally.marks = 0;
  tally.older = older.length === 0 ? none : older;
  tally.olderCalls = 0;
  tally.olderMarks = 0;
  for (const past of older) {
    tally.olderCalls += past.calls;
    tally.olderMarks += past.marks;
  }
}
