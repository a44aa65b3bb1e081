/**
 * A sliding window over the last minute, in slots of a second. It covers sixty whole slots besides the current one, so that no
 * sixty seconds, wherever they begin, hold more than the sum: what is used stays counted for a minute and at most one slot more.
 * Amounts are whole numbers, which keeps the sum exact. It changes in place, because every call uses several of them. The newest slot
 * is a plain field, so that a call does not touch the memory of the others. The clock must be monotonic.
 */
export class MinuteWindow {
  /** The slots before the newest one, in a circle. It is allocated with the first slot that has to be kept there. */
  older: Float64Array | null = null;
  /** The number of the newest slot, in seconds of the clock. */
  newest = 0;
  inNewest = 0;
  /** The sum of all slots. */
  total = 0;
}

export function used(window: MinuteWindow, nowMs: number): number {
  roll(window, nowMs);
  return window.total;
}

export function fits(window: MinuteWindow, limit: number, amount: number, nowMs: number): boolean {
  return used(window, nowMs) + amount <= limit;
}

/** Counts an amount, whether or not there is room for it, and returns the slot it was counted in. */
export function take(window: MinuteWindow, amount: number, nowMs: number): number {
  roll(window, nowMs);
  window.inNewest += amount;
  window.total += amount;
  return window.newest;
}

/** Corrects what was counted in a slot. A slot that has left the window is ignored, and no slot becomes negative. */
export function adjust(window: MinuteWindow, slot: number, delta: number): void {
  if (slot > window.newest || slot <= window.newest - slotsKept) return;
  const before = amountIn(window, slot);
  const after = Math.max(0, before + delta);
  if (slot === window.newest) window.inNewest = after;
  else olderOf(window)[slot % slotsKept] = after;
  window.total += after - before;
}

/** The time until an amount fits, if nothing else is counted: zero when it fits now, infinity when it never will. */
export function waitMs(window: MinuteWindow, limit: number, amount: number, nowMs: number): number {
  roll(window, nowMs);
  let excess = window.total + amount - limit;
  if (excess <= 0) return 0;
  if (amount > limit) return Infinity;
  for (let slot = Math.max(0, window.newest - slotsKept + 1); slot <= window.newest; slot += 1) {
    excess -= amountIn(window, slot);
    if (excess <= 0) return leavesMs(slot) - nowMs;
  }
  return Infinity;
}

/** The time until the window is empty, if nothing else is counted. */
export function resetMs(window: MinuteWindow, nowMs: number): number {
  roll(window, nowMs);
  if (window.total <= 0) return 0;
  const oldest = Math.max(0, window.newest - slotsKept + 1);
  let slot = window.newest;
  while (slot > oldest && amountIn(window, slot) === 0) slot -= 1;
  return leavesMs(slot) - nowMs;
}

/** What was used in each slot, and how many slots ago that was. */
export function usedBySlot(window: MinuteWindow, nowMs: number): readonly { readonly ago: number; readonly amount: number }[] {
  roll(window, nowMs);
  const used: { readonly ago: number; readonly amount: number }[] = [];
  for (let ago = 0; ago < slotsKept && ago <= window.newest; ago += 1) {
    const amount = amountIn(window, window.newest - ago);
    if (amount > 0) used.push({ ago, amount });
  }
  return used;
}

/** After this long without use a window is empty. */
export const windowMs = 61_000;

const slotMs = 1_000;
const slotsKept = windowMs / slotMs;

function leavesMs(slot: number): number {
  return (slot + slotsKept) * slotMs;
}

/** What is counted in a slot that the window covers. */
function amountIn({ older, newest, inNewest }: MinuteWindow, slot: number): number {
  if (slot === newest) return inNewest;
  return older === null ? 0 : older[slot % slotsKept]!;
}

function olderOf(window: MinuteWindow): Float64Array {
  return (window.older ??= new Float64Array(slotsKept));
}

/** Moves on to the current slot. A time before the newest slot counts as the newest. */
function roll(window: MinuteWindow, nowMs: number): void {
  const slot = Math.floor(nowMs / slotMs);
  if (slot > window.newest) moveTo(window, slot);
}

/** Apart from `roll`, which every call goes through several times: this is needed once a second. */
function moveTo(window: MinuteWindow, slot: number): void {
  if (slot - window.newest >= slotsKept) {
    window.older?.fill(0);
    window.total = 0;
  } else if (window.total > 0) {
    const older = olderOf(window);
    older[window.newest % slotsKept] = window.inNewest;
    for (let passed = window.newest + 1; passed <= slot; passed += 1) {
      const at = passed % slotsKept;
      window.total -= older[at]!;
      older[at] = 0;
    }
  }
  window.newest = slot;
  window.inNewest = 0;
}

/**
 * Makes a whole amount of a figure that may come from anywhere: rounded up, not negative, and at most `amountMax`. What is not a
 * number becomes `otherwise`.
 */
export function wholeAmount(figure: number, otherwise: number): number {
  if (!(figure >= 0)) return otherwise;
  return Math.min(Math.ceil(figure), amountMax);
}

/** The sum of a million of these is still an exact number, whatever is counted: tokens, milliseconds, characters. */
export const amountMax = 1_000_000_000;
