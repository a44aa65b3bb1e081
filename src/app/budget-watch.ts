import type { Storage } from "../gateway/storage.ts";
import type { Group } from "../keys/group.ts";
import type { Key } from "../keys/key.ts";
import { hasBudgets } from "../limits/limits.ts";
import { storedKeys } from "../manage/key-search.ts";
import { budgetSpending, groupSpending, type BudgetSpending } from "../manage/key-spending.ts";
import type { BudgetState } from "../telemetry/metrics/state-metrics.ts";

export interface BudgetWatchOptions {
  /** For long queries, which do not delay calls. */
  readonly reports: Storage;
  readonly wallMs: () => number;
  readonly fileKeys: () => readonly Key[];
  /** The key with the defaults of its groups. */
  readonly attached: (key: Key) => Key | null;
  /** All groups, with the defaults of those above them. */
  readonly groups: () => readonly Group[];
  /** Called after each look, with the budgets and the keys. */
  readonly onLook: (budgets: readonly BudgetState[], keys: readonly Key[]) => Promise<void>;
}

/** Looks up, once a minute, what keys and groups have left of their budgets. Between two looks, and while the store is away, the last one counts. */
export class BudgetWatch {
  private timer: ReturnType<typeof setInterval> | null = null;
  private looking = false;
  private lookedMs = 0;
  states: readonly BudgetState[] = [];

  constructor(private readonly options: BudgetWatchOptions) {}

  start(): void {
    void this.look();
    this.timer = setInterval(() => void this.look(), everyMs);
    this.timer.unref();
  }

  /** The last look. Where none is made regularly, this one begins the next, which whoever asks again will see. */
  recent(): readonly BudgetState[] {
    if (this.options.wallMs() - this.lookedMs >= everyMs) void this.look();
    return this.states;
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    this.lookedMs = this.options.wallMs();
    try {
      const known = [...this.options.fileKeys()];
      for await (const key of storedKeys(this.options.reports, storedKeysMax)) known.push(key);
      const keys = known.map((key) => this.options.attached(key) ?? key);
      this.states = [...(await this.budgets(keys)), ...(await this.groupBudgets())];
      await this.options.onLook(this.states, keys);
    } catch {
      // The store is away, which is reported elsewhere.
    } finally {
      this.looking = false;
    }
  }

  private async budgets(keys: readonly Key[]): Promise<readonly BudgetState[]> {
    const states: BudgetState[] = [];
    for (const key of keys.filter(({ limits }) => hasBudgets(limits)).slice(0, budgetedMax)) {
      states.push(...(await budgetSpending(this.options, key)).map((spending) => stateOf("key", key.id, spending)));
    }
    return states;
  }

  private async groupBudgets(): Promise<readonly BudgetState[]> {
    const states: BudgetState[] = [];
    const budgeted = this.options.groups().filter(({ limits }) => hasBudgets(limits));
    for (const group of budgeted.slice(0, budgetedMax)) {
      states.push(...(await groupSpending(this.options, group)).map((spending) => stateOf("group", group.id, spending)));
    }
    return states;
  }
}

function stateOf(of: BudgetState["of"], id: string, { name, models, budget, spentNanos, sinceMs }: BudgetSpending): BudgetState {
  return { of, id, models: name === null ? (models ?? "") : `#${name}`, limitNanos: budget.nanos, spentNanos, sinceMs };
}

const everyMs = 60_000;
const storedKeysMax = 1_000;
/** Each takes a query or two. */
const budgetedMax = 200;
