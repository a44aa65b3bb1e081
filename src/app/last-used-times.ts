import type { Timers } from "../clock/timers.ts";
import type { Durable } from "./durable.ts";

/** Collects when keys were last used, and writes it to the store every minute. */
export class LastUsedTimes {
  private lastUsed = new Map<string, number>();
  private disarm: () => void = () => {};

  constructor(
    private readonly durable: Pick<Durable, "storage" | "clock">,
    private readonly timers: Timers,
  ) {}

  used(keyId: string): void {
    this.lastUsed.set(keyId, this.durable.clock.wallMs());
  }

  start(): void {
    this.disarm = this.timers.after(everyMs, () => void this.flush().then(() => this.start()));
  }

  stop(): void {
    this.disarm();
  }

  async flush(): Promise<void> {
    if (this.lastUsed.size === 0) return;
    const times = this.lastUsed;
    this.lastUsed = new Map();
    // This is only informative, so nothing is repeated if the store cannot be reached.
    await this.durable.storage.keys.used(times).catch(() => {});
  }
}

const everyMs = 60_000;
