import type { Channel } from "../../channels/channel.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";

/**
 * Keeps the lists of models of discovered channels: all channels are asked when they appear, then regularly, and sooner while one of
 * them has not answered. A list stays known when a later request fails.
 */
export class Discovery {
  private readonly known = new Map<string, readonly string[]>();
  private readonly failures = new Map<string, Failure>();
  private channels: readonly Channel[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private generation = 0;

  constructor(
    private readonly ask: (channel: Channel) => Promise<readonly string[] | Failure>,
    private readonly changed: (channel: string, outcome: readonly string[] | Failure) => void,
  ) {}

  get models(): ReadonlyMap<string, readonly string[]> {
    return this.known;
  }

  failureOf(channel: string): Failure | null {
    return this.failures.get(channel) ?? null;
  }

  /** Follows these channels from now on. Resolves when each was asked once, or after `withinMs`. */
  async follow(channels: readonly Channel[], withinMs: number): Promise<void> {
    this.channels = channels;
    this.generation++;
    const followed = new Set(channels.map(({ name }) => name));
    for (const name of [...this.known.keys()]) if (!followed.has(name)) this.known.delete(name);
    if (channels.length === 0) return;
    let wake: () => void = () => {};
    const patience = setTimeout(() => wake(), withinMs);
    await Promise.race([this.round(), new Promise<void>((resolve) => (wake = resolve))]);
    clearTimeout(patience);
  }

  stop(): void {
    this.generation++;
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private async round(): Promise<void> {
    const { generation } = this;
    if (this.timer !== null) clearTimeout(this.timer);
    await Promise.all(this.channels.map((channel) => this.askOne(channel, generation)));
    if (generation !== this.generation) return;
    const waitMs = this.channels.some(({ name }) => !this.known.has(name)) ? soonMs : againMs;
    this.timer = setTimeout(() => void this.round(), waitMs);
  }

  private async askOne(channel: Channel, generation: number): Promise<void> {
    const outcome = await this.ask(channel).catch((error: unknown) =>
      failure("misconfigured", `the channel cannot be asked: ${String(error)}`),
    );
    if (generation !== this.generation) return;
    if (isFailure(outcome)) {
      const before = this.failures.get(channel.name)?.kind;
      this.failures.set(channel.name, outcome);
      if (before !== outcome.kind) this.changed(channel.name, outcome);
      return;
    }
    this.failures.delete(channel.name);
    if (this.known.get(channel.name)?.join("\n") === outcome.join("\n")) return;
    this.known.set(channel.name, outcome);
    this.changed(channel.name, outcome);
  }
}

const soonMs = 15_000;
const againMs = 600_000;
