import type { AttemptReceipt, Receipt } from "../../src/usage/receipt.ts";
import type { Attempt } from "./chaos/ledger.ts";

/** The timers of a channel, in milliseconds. */
export type Timers = Readonly<Record<"connect" | "first_byte" | "first_content" | "idle" | "progress" | "total", number>>;

/** Those of a channel's settings, with the defaults for what they leave out. */
export function timersOf(settings: Readonly<Record<string, unknown>>): Timers {
  const given = (settings["timeouts"] ?? {}) as Readonly<Record<string, string>>;
  const set = Object.entries(given).map(([name, value]) => [name, millisecondsOf(value)] as const);
  return { ...defaults, ...Object.fromEntries(set) };
}

const defaults: Timers = { connect: 5_000, first_byte: 300_000, first_content: 60_000, idle: 120_000, progress: 300_000, total: 1_800_000 };

function millisecondsOf(value: string): number {
  const [, number = "", unit = ""] = /^([\d.]+)(ms|s|m)$/.exec(value) ?? [];
  return Number(number) * ({ ms: 1, s: 1_000, m: 60_000 }[unit] ?? Number.NaN);
}

/**
 * How long a call may have taken: as long as its upstreams were speaking, as the timers allow where they were not, and the waits
 * between attempts. All that is more was the gateway's own.
 */
export function statedMs(receipt: Receipt | undefined, truths: readonly Attempt[], timersFor: (channel: string) => Timers): number {
  const attempts = receipt?.attempts ?? [];
  const spokenMs = truths.reduce((sum, truth) => sum + spokeMs(truth), 0);
  // Where an upstream made the end itself, no timer has. One that heard too little of an upload to know whose it is has not ended it.
  const ended = truths.filter(({ endedBy }) => endedBy !== "client_closed" && endedBy !== null).length;
  const left = Math.max(0, attempts.length - ended);
  const connectingMs = attempts.map(({ error, channel }) => (error === "connect_timeout" ? timersFor(channel).connect : 0));
  const silencesMs = attempts.map((attempt) => silenceMs(attempt, timersFor(attempt.channel))).toSorted((one, other) => other - one);
  const silentMs = [...connectingMs, ...silencesMs.slice(0, left)].reduce((sum, ms) => sum + ms, 0);
  const betweenMs = attempts.slice(1).reduce((sum, attempt, before) => sum + waitMs(attempts, attempt, before), 0);
  const isFull = receipt?.plan?.some(({ verdict }) => verdict === "saturated") ?? false;
  return spokenMs + silentMs + betweenMs + (isFull ? placeMs : 0);
}

/** How long a call waits for a place at a channel that is full. */
const placeMs = 2_000;

/** From the request to the upstream's last word, or to the end it made itself. */
function spokeMs({ at, endedBy, closedAt, lastSentAt }: Attempt): number {
  const until = endedBy === "complete" || endedBy === "fault" ? closedAt : lastSentAt;
  return (until ?? at) - at;
}

function silenceMs({ outcome, error }: AttemptReceipt, timers: Timers): number {
  switch (error) {
    case "timed_out":
    case "deadline":
      return Math.max(timers.first_byte, timers.first_content);
    case "interrupted":
      return Math.max(timers.idle, timers.progress);
    default:
      // A stream that is finished and does not end is given the time of one that has fallen silent.
      return outcome === "answered" ? timers.idle : 0;
  }
}

/** Elsewhere at once; the same one after a wait that doubles, or after what it asked for. */
function waitMs(attempts: readonly AttemptReceipt[], attempt: AttemptReceipt, before: number): number {
  const last = attempts[before]!;
  if (last.channel !== attempt.channel) return 50;
  return last.error === "rate_limited" || last.status === 503 ? 5_000 : 250 * 2 ** before;
}
