import type { Attempt } from "./chaos/ledger.ts";

/**
 * Looks again and again how many streams an upstream has that it has not sent to their end. These certainly have their places, while one
 * that was sent whole may have given up its own before the upstream hears of that.
 */
export class OpenStreams implements Disposable {
  most = 0;
  private readonly watch = setInterval(() => (this.most = Math.max(this.most, this.now)), 10);

  constructor(
    private readonly attempts: () => readonly Attempt[],
    /** The models that count, and how many tokens a stream of each has. */
    private readonly tokens: Readonly<Record<string, number>>,
  ) {}

  get now(): number {
    const isRunning = ({ model, endedBy, tokensSent }: Attempt): boolean =>
      endedBy === null && tokensSent.length < (this.tokens[model ?? ""] ?? 0);
    return this.attempts().filter(isRunning).length;
  }

  [Symbol.dispose](): void {
    clearInterval(this.watch);
  }
}
