import type { Timers } from "../clock/timers.ts";
import type { Durable } from "./durable.ts";

/** When keys were last used, told to the store by the minute. */
export class KeyUse {
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
    this.disarm = this.timers.after(everyMs, () => void this.tell().then(() => this.start()));
  }

  stop(): void {
    this.disarm();
  }

  async tell(): Promise<void> {
    if (this.lastUsed.size === 0) return;
    const told = this.lastUsed;
    this.lastUsed = new Map();
    // Only a convenience: a store that is away does not get it later.
    await this.durable.storage.keys.used(told).catch(() => {});
  }
}

const everyMs = 60_000;
