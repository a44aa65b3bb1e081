import type { Hold, DistributedCounts } from "../../limits/distributed-counts.ts";
import type { StoreGuard } from "../store-guard.ts";

/**
 * The places that this process holds. One that its call has left stays here for a moment, so that the next call has it without a
 * word to the store; then it goes back, together with others. The store is told of those that are held again and again, so that
 * those of a dead process come back soon, and so that it learns of the ones that were taken while it was lost or that it forgot.
 */
export class SlotLeases {
  /** By limit and name, in use or not. */
  private readonly held = new Map<string, Hold>();
  /** Those that no call uses, by limit, and since when; the last that came is the first to be used again. */
  private readonly idle = new Map<string, Idle[]>();
  /** Taken without the store's knowledge: nobody else may have them when their call is over. */
  private readonly unseen = new Set<string>();
  /** Freed here, but the store does not know. It will, by itself, when their life ends. */
  private readonly unreleased = new Map<string, { readonly hold: Hold; readonly untilMs: number }>();
  private keeping: Promise<void> | null = null;
  private keptMs = 0;
  private readonly process = crypto.randomUUID();
  private serial = 0;

  constructor(
    private readonly counts: Pick<DistributedCounts, "keep" | "release">,
    private readonly guard: Pick<StoreGuard, "run" | "open">,
    private readonly nowMs: () => number,
    readonly lifeMs: number,
    /** For so long a place that nobody uses stays here. */
    private readonly idleMs: number,
  ) {}

  /** Whether there is anything to be told, now or later. */
  get busy(): boolean {
    return this.held.size > 0 || this.unreleased.size > 0;
  }

  /** A place to be asked for, and so many more for those who wait behind. */
  wanted(id: string, limit: number, more: number): Hold {
    return { id, limit, call: this.name(), lifeMs: this.lifeMs, more: Array.from({ length: more }, () => this.name()) };
  }

  /** The store took so many of the places it was asked for: the first is in use, the others are there for those who wait. */
  arrived({ id, limit, call, lifeMs, more = [] }: Hold, count: number): Hold {
    const [first, ...others] = [call, ...more].slice(0, Math.max(1, count)).map((name): Hold => ({ id, limit, call: name, lifeMs }));
    for (const hold of others) {
      this.add(hold);
      this.rest(hold);
    }
    this.add(first!);
    return first!;
  }

  /** A place for a call that was admitted without the store. */
  unseenOf(id: string, limit: number): Hold {
    const hold: Hold = { id, limit, call: this.name(), lifeMs: this.lifeMs };
    this.add(hold);
    this.unseen.add(nameOf(hold));
    return hold;
  }

  /** Whether there is one that no call uses. What was granted under another limit than now is not used again. */
  hasIdle(id: string, limit: number): boolean {
    return this.idle.get(id)?.at(-1)?.hold.limit === limit;
  }

  takeIdle(id: string, limit: number): Hold | null {
    if (!this.hasIdle(id, limit)) return null;
    const resting = this.idle.get(id)!;
    const { hold } = resting.pop()!;
    if (resting.length === 0) this.idle.delete(id);
    return hold;
  }

  /** Its call is over, or was not admitted after all. */
  leave(hold: Hold): void {
    const name = nameOf(hold);
    if (this.unseen.delete(name)) {
      this.held.delete(name);
      void this.release(hold.id, [hold], this.nowMs() + this.lifeMs);
    } else this.rest(hold);
  }

  /** The store took places for a call that went on, or not, without them. */
  late({ id, limit, call, lifeMs, more = [] }: Hold): void {
    const holds = [call, ...more].map((name): Hold => ({ id, limit, call: name, lifeMs }));
    void this.release(id, holds, this.nowMs() + this.lifeMs);
  }

  /** Prolongs the places when it is time, and frees those that nobody uses or that could not be freed before. */
  async tend(): Promise<void> {
    const nowMs = this.nowMs();
    for (const [name, { hold, untilMs }] of this.unreleased) {
      if (nowMs < untilMs && !this.guard.open) break;
      this.unreleased.delete(name);
      if (nowMs < untilMs) void this.release(hold.id, [hold], untilMs);
    }
    for (const [id, resting] of this.idle) this.freeIdle(id, resting, nowMs);
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

  /** The store knows of none of them any more. */
  forgotten(): void {
    this.keptMs = Number.NEGATIVE_INFINITY;
  }

  async releaseAll(): Promise<void> {
    const holds = [...this.held.values(), ...this.unreleased.values().map(({ hold }) => hold)].slice(0, unreleasedMax);
    this.held.clear();
    this.idle.clear();
    this.unreleased.clear();
    const byId = Map.groupBy(holds, ({ id }) => id);
    await Promise.all([...byId].map(([id, some]) => this.release(id, some, 0)));
  }

  private name(): string {
    return `${this.process}-${(this.serial += 1)}`;
  }

  private add(hold: Hold): void {
    if (this.held.size === 0) this.keptMs = Math.max(this.keptMs, this.nowMs());
    this.held.set(nameOf(hold), hold);
  }

  private rest(hold: Hold): void {
    const resting = this.idle.get(hold.id);
    const idle: Idle = { hold, sinceMs: this.nowMs() };
    if (resting === undefined) this.idle.set(hold.id, [idle]);
    else resting.push(idle);
  }

  /** The first of them have rested longest. */
  private freeIdle(id: string, resting: Idle[], nowMs: number): void {
    const staying = resting.findIndex(({ sinceMs }) => nowMs - sinceMs < this.idleMs);
    const gone = resting.splice(0, staying < 0 ? resting.length : staying).map(({ hold }) => hold);
    if (resting.length === 0) this.idle.delete(id);
    if (gone.length === 0) return;
    for (const hold of gone) this.held.delete(nameOf(hold));
    void this.release(id, gone, nowMs + this.lifeMs);
  }

  private async release(id: string, holds: readonly Hold[], untilMs: number): Promise<void> {
    // To be prolonged after it was freed would hold it for nobody.
    if (this.keeping !== null) await this.keeping;
    try {
      await this.guard.run(() =>
        this.counts.release(
          id,
          holds.map(({ call }) => call),
        ),
      );
    } catch {
      if (untilMs <= this.nowMs()) return;
      for (const hold of holds) if (this.unreleased.size < unreleasedMax) this.unreleased.set(nameOf(hold), { hold, untilMs });
    }
  }
}

interface Idle {
  readonly hold: Hold;
  readonly sinceMs: number;
}

function nameOf({ id, call }: Hold): string {
  return `${id} ${call}`;
}

const unreleasedMax = 10_000;
