import type { Hold, SharedCounts } from "../limits/joint-counts.ts";
import type { Place } from "../limits/rate-keeper.ts";
import type { StoreGuard } from "./store-guard.ts";

/**
 * The places that calls of this process hold. The store is told of them again and again, so that those of a dead process come
 * back soon, and so that it learns of the ones that were taken while it was lost or that it forgot.
 */
export class LeasedPlaces {
  /** By limit and call: one call may hold places of several limits. */
  private readonly held = new Map<string, Hold>();
  /** Freed here, but the store does not know. It will, by itself, when their life ends. */
  private readonly unreleased = new Map<string, { readonly hold: Hold; readonly untilMs: number }>();
  private keeping: Promise<void> | null = null;
  private keptMs = 0;

  constructor(
    private readonly counts: Pick<SharedCounts, "keep" | "release">,
    private readonly guard: Pick<StoreGuard, "run" | "open">,
    private readonly nowMs: () => number,
    readonly lifeMs: number,
  ) {}

  /** Whether there is anything to be told, now or later. */
  get busy(): boolean {
    return this.held.size > 0 || this.unreleased.size > 0;
  }

  holdOf({ id, limit, call }: Place): Hold {
    return { id, limit, call, lifeMs: this.lifeMs };
  }

  add(hold: Hold): void {
    if (this.held.size === 0) this.keptMs = this.nowMs();
    this.held.set(nameOf(hold), hold);
  }

  remove(hold: Hold): void {
    this.held.delete(nameOf(hold));
    void this.release(hold, this.nowMs() + this.lifeMs);
  }

  /** The store took a place for a call that went on, or not, without it. */
  late(hold: Hold): void {
    if (!this.held.has(nameOf(hold))) void this.release(hold, this.nowMs() + this.lifeMs);
  }

  /** Prolongs the places when it is time, and frees those that could not be freed before. */
  async tend(): Promise<void> {
    const nowMs = this.nowMs();
    for (const [name, { hold, untilMs }] of this.unreleased) {
      if (nowMs < untilMs && !this.guard.open) break;
      this.unreleased.delete(name);
      if (nowMs < untilMs) void this.release(hold, untilMs);
    }
    if (this.held.size === 0 || nowMs - this.keptMs < this.lifeMs / 3 || !this.guard.open || this.keeping !== null) return;
    const before = this.keptMs;
    this.keptMs = nowMs;
    this.keeping = this.guard
      .run(() => this.counts.keep([...this.held.values()]))
      // It is tried again soon.
      .catch(() => void (this.keptMs = before));
    await this.keeping;
    this.keeping = null;
  }

  async releaseAll(): Promise<void> {
    const holds = [...this.held.values(), ...this.unreleased.values().map(({ hold }) => hold)];
    this.held.clear();
    this.unreleased.clear();
    await Promise.all(holds.slice(0, unreleasedMax).map((hold) => this.release(hold, 0)));
  }

  private async release(hold: Hold, untilMs: number): Promise<void> {
    // To be prolonged after it was freed would hold it for nobody.
    if (this.keeping !== null) await this.keeping;
    try {
      await this.guard.run(() => this.counts.release(hold));
    } catch {
      if (untilMs > this.nowMs() && this.unreleased.size < unreleasedMax) this.unreleased.set(nameOf(hold), { hold, untilMs });
    }
  }
}

function nameOf({ id, call }: Hold): string {
  return `${id} ${call}`;
}

const unreleasedMax = 10_000;
