/**
 * How much was used in the last minute, in slots of a second. It reaches back over sixty whole slots besides the current
 * one, so that no sixty seconds, wherever they begin, hold more than the sum: what is used stays counted for a minute
 * and at most one slot more. Amounts are whole numbers, which keeps the sum exact. It changes in place and never
 * allocates, because every call passes several of them. The clock is one that never jumps.
 */
export interface Window {
  readonly slots: Float64Array;
  /** The number of the newest slot, in seconds of the clock. */
  newest: number;
  total: number;
}

export function newWindow(): Window {
  return { slots: new Float64Array(slotsKept), newest: 0, total: 0 };
}

/** How much was used. */
export function used(window: Window, nowMs: number): number {
  roll(window, nowMs);
  return window.total;
}

export function fits(window: Window, limit: number, amount: number, nowMs: number): boolean {
  return used(window, nowMs) + amount <= limit;
}

/** Counts an amount, whether or not there is room for it, and tells the slot it was counted in. */
export function take(window: Window, amount: number, nowMs: number): number {
  roll(window, nowMs);
  window.slots[window.newest % slotsKept]! += amount;
  window.total += amount;
  return window.newest;
}

/** Corrects what was counted in a slot, whatever time it is. What has left the window stays gone, and no slot falls below nothing. */
export function adjust(window: Window, slot: number, delta: number): void {
  if (slot > window.newest || slot <= window.newest - slotsKept) return;
  const at = slot % slotsKept;
  const before = window.slots[at]!;
  const after = Math.max(0, before + delta);
  window.slots[at] = after;
  window.total += after - before;
}

/** Until an amount fits, if nothing else is counted: zero when it does now, infinity when it never will. */
export function waitMs(window: Window, limit: number, amount: number, nowMs: number): number {
  roll(window, nowMs);
  let excess = window.total + amount - limit;
  if (excess <= 0) return 0;
  if (amount > limit) return Infinity;
  for (let slot = Math.max(0, window.newest - slotsKept + 1); slot <= window.newest; slot += 1) {
    excess -= window.slots[slot % slotsKept]!;
    if (excess <= 0) return leavesMs(slot) - nowMs;
  }
  return Infinity;
}

/** Until all of it is free again, if nothing else is counted. */
export function resetMs(window: Window, nowMs: number): number {
  roll(window, nowMs);
  if (window.total <= 0) return 0;
  const oldest = Math.max(0, window.newest - slotsKept + 1);
  let slot = window.newest;
  while (slot > oldest && window.slots[slot % slotsKept] === 0) slot -= 1;
  return leavesMs(slot) - nowMs;
}

/** What was used, slot by slot, and how many slots ago. */
export function usedBySlot(window: Window, nowMs: number): readonly { readonly ago: number; readonly amount: number }[] {
  roll(window, nowMs);
  const found: { readonly ago: number; readonly amount: number }[] = [];
  for (let ago = 0; ago < slotsKept && ago <= window.newest; ago += 1) {
    const amount = window.slots[(window.newest - ago) % slotsKept]!;
    if (amount > 0) found.push({ ago, amount });
  }
  return found;
}

/** After this long without use there is nothing left in a window. */
export const windowMs = 61_000;

const slotMs = 1_000;
const slotsKept = windowMs / slotMs;

function leavesMs(slot: number): number {
  return (slot + slotsKept) * slotMs;
}

/** Moves on to the slot of this moment. A moment before the newest slot counts as the newest. */
function roll(window: Window, nowMs: number): void {
  const slot = Math.floor(nowMs / slotMs);
  if (slot <= window.newest) return;
  if (slot - window.newest >= slotsKept) {
    window.slots.fill(0);
    window.total = 0;
  } else if (window.total > 0) {
    for (let passed = window.newest + 1; passed <= slot; passed += 1) {
      const at = passed % slotsKept;
      window.total -= window.slots[at]!;
      window.slots[at] = 0;
    }
  }
  window.newest = slot;
}
