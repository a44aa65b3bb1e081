/**
 * A sliding-window counter: how many calls there were in the last while, and how many of them carry a mark (a retry, an accepted
 * request, a hedge). Time is divided into slots, and a slot that has left the window is forgotten, which bounds the memory. The
 * window reaches back at least `slots - 1` whole slots, so a limit over ten seconds needs eleven slots of one second. Every call
 * counts in several of these, so they change in place. The clock must be monotonic.
 */
export interface SlidingCounter {
  slot: number;
  /** In the current slot. */
  calls: number;
  marks: number;
  /** The slots before it, oldest first, and their sums. */
  older: readonly CountedSlot[];
  olderCalls: number;
  olderMarks: number;
}

interface CountedSlot {
  readonly slot: number;
  readonly calls: number;
  readonly marks: number;
}

/** How far a sliding window reaches, and how finely it is divided. */
export interface WindowSpan {
  readonly slotMs: number;
  readonly slots: number;
}

/** One empty list for all counters without older slots: there is a counter for each model name. */
const none: readonly CountedSlot[] = [];

export function newSlidingCounter(): SlidingCounter {
  return { slot: 0, calls: 0, marks: 0, older: none, olderCalls: 0, olderMarks: 0 };
}

export function count(counter: SlidingCounter, span: WindowSpan, nowMs: number, calls: number, marks: number): void {
  roll(counter, span, nowMs);
  counter.calls += calls;
  counter.marks += marks;
}

export function callsIn(counter: SlidingCounter, span: WindowSpan, nowMs: number): number {
  roll(counter, span, nowMs);
  return counter.calls + counter.olderCalls;
}

export function marksIn(counter: SlidingCounter, span: WindowSpan, nowMs: number): number {
  roll(counter, span, nowMs);
  return counter.marks + counter.olderMarks;
}

function roll(counter: SlidingCounter, span: WindowSpan, nowMs: number): void {
  const slot = Math.floor(nowMs / span.slotMs);
  if (slot > counter.slot) moveTo(slot, counter, span);
}

/** Drops what has left the window. A function of its own: its closure would cost every call a scope. */
function moveTo(slot: number, counter: SlidingCounter, span: WindowSpan): void {
  const last: CountedSlot = { slot: counter.slot, calls: counter.calls, marks: counter.marks };
  const older = [...counter.older, last].filter((past) => past.slot > slot - span.slots);
  counter.slot = slot;
  counter.calls = 0;
  counter.marks = 0;
  counter.older = older.length === 0 ? none : older;
  counter.olderCalls = 0;
  counter.olderMarks = 0;
  for (const past of older) {
    counter.olderCalls += past.calls;
    counter.olderMarks += past.marks;
  }
}
