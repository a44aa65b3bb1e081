import { isNearlySpent, isSpent } from "../../limits/budget-use.ts";
import type { BudgetState, ChannelState } from "../metrics/state-metrics.ts";

/** What webhooks can be told of. */
export const noticeTypes = ["budget.warning", "budget.spent", "channel.down", "channel.up", "key.expiring", "cost.jump"] as const;
export type NoticeType = (typeof noticeTypes)[number];

/** Something that an operator wants to hear of. It names keys, groups and channels, and holds no secret. */
export interface Notice {
  /** The same for the same occurrence, so that it is told once, and a receiver can recognise what it got from another process. */
  readonly id: string;
  readonly type: NoticeType;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Budgets of which four fifths are spent in the present period, or that refuse calls because too little is left. */
export function budgetNotices(budgets: readonly BudgetState[]): readonly Notice[] {
  return budgets.flatMap((budget) => {
    const { of, id, name, models, limitNanos, spentNanos, sinceMs } = budget;
    const type: NoticeType | null = isSpent(budget) ? "budget.spent" : isNearlySpent(budget) ? "budget.warning" : null;
    if (type === null) return [];
    // A large call may be refused long before the end. Others go on then, and their end has to be told as well.
    const early = type === "budget.spent" && spentNanos < limitNanos * endShare ? ":early" : "";
    const data = {
      [of]: id,
      name,
      models: models === "" ? null : models,
      limit_usd: limitNanos / 1e9,
      spent_usd: spentNanos / 1e9,
      period_since: sinceMs === null ? null : new Date(sinceMs).toISOString(),
    };
    return [{ id: `${type}:${id}:${models}:${limitNanos}:${sinceMs ?? "total"}${early}`, type, data }];
  });
}

/** Keys that expire within a week, and once more those that expire within a day. */
export function expiryNotices(
  keys: readonly { readonly id: string; readonly name: string; readonly expiresMs: number | null }[],
  nowMs: number,
): readonly Notice[] {
  return keys.flatMap(({ id, name, expiresMs }) => {
    const leftMs = expiresMs === null ? Infinity : expiresMs - nowMs;
    if (expiresMs === null || leftMs <= 0 || leftMs > weekMs) return [];
    const data = { key: id, name, expires: new Date(expiresMs).toISOString() };
    return [{ id: `key.expiring:${id}:${expiresMs}:${leftMs <= dayMs ? "day" : "week"}`, type: "key.expiring" as const, data }];
  });
}

/**
 * The hour that has just ended cost several times as much as the hours of the day before it. Hours in which nothing was spent are no
 * measure: after a night, a weekend or the first start, every hour would be a jump.
 */
export function costNotices(hours: readonly { readonly atMs: number; readonly nanos: number }[], hourMs: number): readonly Notice[] {
  const hourNanos = hours.find(({ atMs }) => atMs === hourMs)?.nanos ?? 0;
  const before = hours.filter(({ atMs, nanos }) => atMs < hourMs && nanos > 0);
  const usualNanos = before.reduce((sum, { nanos }) => sum + nanos, 0) / before.length;
  if (before.length < hoursMin || hourNanos < jumpNanosMin || hourNanos < usualNanos * jumpFactor) return [];
  const hour = new Date(hourMs).toISOString();
  return [{ id: `cost.jump:${hour}`, type: "cost.jump", data: { hour, cost_usd: hourNanos / 1e9, usual_usd: usualNanos / 1e9 } }];
}

/**
 * Tells when channels go down and come back. One that is down at two looks in a row is down: breakers open for a moment all the time. It
 * is back when it has answered: a breaker that lets a probe through says nothing yet, and would do so every few seconds of an outage.
 */
export class ChannelWatch {
  /** By channel, at how many looks in a row it was down. One that is told to be down stays here until it is back. */
  private readonly looksDown = new Map<string, number>();
  private count = 0;

  constructor(private readonly instance: string) {}

  look(channels: readonly ChannelState[]): readonly Notice[] {
    const notices: Notice[] = [];
    for (const { name, isAvailable, isProven } of channels) {
      const before = this.looksDown.get(name) ?? 0;
      const isDown = before >= looksToBeDown;
      if (!isAvailable) {
        this.looksDown.set(name, before + 1);
        if (before + 1 === looksToBeDown) notices.push(this.notice("channel.down", name));
      } else if (!isDown || isProven) {
        this.looksDown.delete(name);
        if (isDown) notices.push(this.notice("channel.up", name));
      }
    }
    // A channel that was removed is neither up nor down.
    const known = new Set(channels.map(({ name }) => name));
    for (const name of this.looksDown.keys()) if (!known.has(name)) this.looksDown.delete(name);
    return notices;
  }

  private notice(type: "channel.down" | "channel.up", channel: string): Notice {
    this.count += 1;
    return { id: `${type}:${channel}:${this.instance}:${this.count}`, type, data: { channel } };
  }
}

const endShare = 0.95;
const looksToBeDown = 2;
const dayMs = 86_400_000;
const weekMs = 7 * dayMs;
const jumpFactor = 3;
const hoursMin = 3;
const jumpNanosMin = 1_000_000_000;
