import { hintMsMax, hintsMax, hintTextMax, type MarkedHint, type DistributedHints } from "../limits/distributed-hints.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface CoolDownHintsOptions {
  readonly hints: DistributedHints;
  readonly guard: Pick<StoreGuard, "run">;
  readonly after: (ms: number, then: () => void) => () => void;
  /** What another process told, once for each time it did. */
  readonly onHint: (scope: string, cause: string, forMs: number) => void;
  readonly everyMs?: number;
}

/**
 * Tells other processes which upstreams cool down, and hears it from them. They are hints: who is asked is decided here, and
 * with the store lost everything works on without them.
 */
export class CoolDownHints {
  private readonly everyMs: number;
  /** The marks of hints that are ours or were passed on already; those that are not read any more are forgotten. */
  private known = new Set<string>();
  /** Told since the last round began, which may have been too early to read them. */
  private own = new Set<string>();
  private telling = 0;
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: CoolDownHintsOptions) {
    this.everyMs = options.everyMs ?? 1_000;
    this.later();
  }

  tell(scope: string, cause: string, forMs: number): void {
    // In a storm of failures the store has better things to do.
    if (this.stopped || this.telling >= tellingMax || !(forMs > 0) || scope.length > hintTextMax) return;
    const hint = { scope, cause: cause.slice(0, hintTextMax), forMs: Math.min(Math.ceil(forMs), hintMsMax) };
    this.telling += 1;
    this.options.guard
      .run(() => this.options.hints.tell(hint))
      .then(
        (mark) => this.own.add(mark),
        () => {},
      )
      .finally(() => (this.telling -= 1));
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
      this.heard(await this.options.guard.run(() => this.options.hints.read()), before);
    } catch {
      for (const mark of before) this.own.add(mark);
    }
    if (!this.stopped) this.later();
  }

  private heard(hints: readonly MarkedHint[], before: ReadonlySet<string>): void {
    const read = new Set<string>();
    for (const { mark, scope, cause, forMs } of hints.slice(0, hintsMax)) {
      read.add(mark);
      if (this.known.has(mark) || before.has(mark) || this.own.has(mark) || this.stopped || !(forMs > 0)) continue;
      this.options.onHint(scope, cause, Math.min(forMs, hintMsMax));
    }
    this.known = read;
  }
}

const tellingMax = 16;
