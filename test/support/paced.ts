import type { ChatOptions } from "./chat.ts";
import { timed, type MadeKey, type TimedReply } from "./replicas.ts";

/** A call and when it was made, on the clock of the test. */
export interface PacedReply extends TimedReply {
  readonly atMs: number;
}

/**
 * Calls at a steady pace, each gateway in turn, whether or not those before have ended: so a machine that is not full stays so, and
 * how long calls take says something about the gateway.
 */
export async function paced(
  gateways: readonly { readonly url: string }[],
  key: MadeKey,
  { perSecond, until, answered = () => {}, body, options }: PacedOptions,
): Promise<readonly PacedReply[]> {
  const beganMs = performance.now();
  const calls: Promise<PacedReply>[] = [];
  while (!until()) {
    const due = Math.floor(((performance.now() - beganMs) / 1_000) * perSecond);
    // After the test itself was held up, it does not make up for it all at once.
    if (calls.length < due) {
      const atMs = performance.now();
      calls.push(
        timed(gateways[calls.length % gateways.length]!, key, body, options).then((reply) => {
          answered(reply);
          return { ...reply, atMs };
        }),
      );
    }
    await Bun.sleep(calls.length < due - 1 ? 1 : 1_000 / perSecond / 2);
  }
  return Promise.all(calls);
}

export interface PacedOptions {
  readonly perSecond: number;
  readonly until: () => boolean;
  /** Called with each reply as it comes. */
  readonly answered?: (reply: TimedReply) => void;
  readonly body?: Record<string, unknown>;
  readonly options?: ChatOptions;
}

export function forMs(ms: number): () => boolean {
  const endMs = performance.now() + ms;
  return () => performance.now() >= endMs;
}

/** The most calls that were certainly admitted within sixty seconds, wherever these begin: made in them, and answered in them. */
export function mostInAMinute(calls: readonly PacedReply[]): number {
  const admitted = calls.filter(({ status }) => status === 200);
  const within = (fromMs: number): number =>
    admitted.filter(({ atMs, tookMs }) => atMs >= fromMs && atMs + tookMs <= fromMs + 60_000).length;
  return Math.max(0, ...admitted.map(({ atMs }) => within(atMs)));
}

/**
 * How much longer each call took than the machine can be blamed for: twice the longest of the calls beside it that had nothing to wait
 * for, because who waits in the gateway is held up on the way in and again on the way out.
 */
export function waits(calls: readonly PacedReply[], unaffected: readonly PacedReply[]): readonly number[] {
  return calls.map(({ atMs, tookMs }) => {
    const beside = unaffected.filter((other) => other.atMs < atMs + tookMs && other.atMs + other.tookMs > atMs);
    return tookMs - 2 * Math.max(0, ...beside.map((other) => other.tookMs));
  });
}
