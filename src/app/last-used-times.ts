import type { Timers } from "../clock/timers.ts";
import type { Durable } from "./durable.ts";

/**
 * Collects when keys were last used, and writes it to the store: soon after the first use, so that whoever tries a new key sees it, and
 * then once a minute.
 */
export class LastUsedTimes {
  private lastUsed = new Map<string, number>();
  /** Set from the first use until a minute after the last write. */
  private disarm: (() => void) | null = null;

  constructor(
    private readonly durable: {
      readonly storage: { readonly keys: Pick<Durable["storage"]["keys"], "used"> };
      readonly clock: Pick<Durable["clock"], "wallMs">;
    },
    private readonly timers: Pick<Timers, "after">,
  ) {}

  used(keyId: string): void {
    this.lastUsed.set(keyId, this.durable.clock.wallMs());
    this.disarm ??= this.timers.after(soonMs, this.write);
  }

  stop(): void {
    this.disarm?.();
  }

  async flush(): Promise<void> {
    if (this.lastUsed.size === 0) return;
    const times = this.lastUsed;
    this.lastUsed = new Map();
    // This is only informative, so nothing is repeated if the store cannot be reached.
    await this.durable.storage.keys.used(times).catch(() => {});
  }

  private readonly write = (): void => {
    void this.flush();
    this.disarm = this.timers.after(everyMs, () => {
      if (this.lastUsed.size > 0) this.write();
      else this.disarm = null;
    });
  };
}

const soonMs = 1_000;
const everyMs = 60_000;
