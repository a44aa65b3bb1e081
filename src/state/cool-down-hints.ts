import { hintMsMax, hintsMax, hintTextMax, type PublishedHint, type DistributedHints } from "../limits/distributed-hints.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface CoolDownHintsOptions {
  readonly hints: DistributedHints;
  readonly guard: Pick<StoreGuard, "run">;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Called once for each hint of another process. */
  readonly onHint: (scope: string, cause: string, forMs: number) => void;
  readonly everyMs?: number;
}

/**
 * Tells other processes which upstreams cool down, and reads what they report. These are only hints: routing is decided here, and
 * works without them if the store is lost.
 */
export class CoolDownHints {
  private readonly everyMs: number;
  /** The ids of the hints that were read in the last round, so that each is handled once. */
  private known = new Set<string>();
  /** Hints of this process, published since the last round began. */
  private own = new Set<string>();
  private publishing = 0;
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: CoolDownHintsOptions) {
    this.everyMs = options.everyMs ?? 1_000;
    this.later();
  }

  publish(scope: string, cause: string, forMs: number): void {
    // Bounded, because many failures at once must not become a load on the store.
    if (this.stopped || this.publishing >= publishingMax || !(forMs > 0) || scope.length > hintTextMax) return;
    const hint = { scope, cause: cause.slice(0, hintTextMax), forMs: Math.min(Math.ceil(forMs), hintMsMax) };
    this.publishing += 1;
    this.options.guard
      .run(() => this.options.hints.publish(hint))
      .then(
        (id) => this.own.add(id),
        () => {},
      )
      .finally(() => (this.publishing -= 1));
  }

  stop(): void {
    this.stopped = true;
    this.cancelTimer();
  }

  private later(): void {
    this.cancelTimer = this.options.after(this.everyMs, () => void this.round());
  }

  private async round(): Promise<void> {
    const before = this.own;
    this.own = new Set();
    try {
      this.handle(await this.options.guard.run(() => this.options.hints.read()), before);
    } catch {
      for (const id of before) this.own.add(id);
    }
    if (!this.stopped) this.later();
  }

  private handle(hints: readonly PublishedHint[], before: ReadonlySet<string>): void {
    const read = new Set<string>();
    for (const { id, scope, cause, forMs } of hints.slice(0, hintsMax)) {
      read.add(id);
      if (this.known.has(id) || before.has(id) || this.own.has(id) || this.stopped || !(forMs > 0)) continue;
      this.options.onHint(scope, cause, Math.min(forMs, hintMsMax));
    }
    this.known = read;
  }
}

const publishingMax = 16;
