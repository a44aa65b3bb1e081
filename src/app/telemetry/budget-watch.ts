import { StorageError, type Storage } from "../../gateway/storage.ts";
import type { Group } from "../../keys/group.ts";
import type { Key } from "../../keys/key.ts";
import { lastRefusals, type BudgetRefusal, type BudgetRefusals } from "../../limits/budget-refusal.ts";
import { hasBudgets } from "../../limits/limits.ts";
import { keyPage, storedKeys } from "../../manage/key-search.ts";
import { budgetSpending, groupSpending, toldBudget, type BudgetSpending } from "../../manage/key-spending.ts";
import type { BudgetState } from "../../telemetry/metrics/state-metrics.ts";

export interface BudgetWatchOptions {
  /** For long queries, which do not delay calls. */
  readonly reports: Storage;
  readonly wallMs: () => number;
  readonly fileKeys: () => readonly Key[];
  /** The key with the defaults of its groups. */
  readonly attached: (key: Key) => Key | null;
  /** All groups, with the defaults of those above them. */
  readonly groups: () => readonly Group[];
  /** Whether somebody wants to hear of every key and group, however many there are, and not of those alone that the metrics show. */
  readonly ofAll: boolean;
  /** The budgets that refused calls lately, in any worker. */
  readonly refusals: () => Promise<readonly BudgetRefusal[]>;
  /** Called after each check, with the budgets and the keys. */
  readonly onCheck: (budgets: readonly BudgetState[], keys: readonly Key[]) => Promise<void>;
  readonly onBug: (error: unknown) => void;
}

/**
 * Looks up, once a minute, what keys and groups have spent of their budgets. Between two checks, and while the store is away, the last one
 * counts. Each is of the same first ones, which `states` has, and of some of the others in turn.
 */
export class BudgetWatch {
  private timer: ReturnType<typeof setInterval> | null = null;
  private checking = false;
  private checkedMs = 0;
  states: readonly BudgetState[] = [];
  private isWhole = true;
  /** Where the next check of the other keys and groups begins. */
  private keyCursor: string | null = null;
  private groupsSeen = 0;
  private refusals: BudgetRefusals = new Map();

  constructor(private readonly options: BudgetWatchOptions) {}

  start(): void {
    if (this.timer !== null) return;
    void this.check();
    this.timer = setInterval(() => void this.check(), everyMs);
    this.timer.unref();
  }

  /** What the last check found. Where none is made regularly, this begins the next, which whoever asks again will see. */
  latest(): { readonly spent: readonly BudgetState[]; readonly isWhole: boolean; readonly refusals: BudgetRefusals } {
    const passedMs = this.options.wallMs() - this.checkedMs;
    // Also after the clock was set back, or there would be no check until it is what it was.
    if (passedMs < 0 || passedMs >= everyMs) void this.check();
    return { spent: this.states, isWhole: this.isWhole, refusals: this.refusals };
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }

  private async check(): Promise<void> {
    if (this.checking) return;
    this.checking = true;
    this.checkedMs = this.options.wallMs();
    try {
      this.refusals = lastRefusals(await this.options.refusals());
      const known = [...this.options.fileKeys()];
      const inFile = known.length;
      for await (const key of storedKeys(this.options.reports, storedKeysMax)) known.push(key);
      const keys = known.map((key) => this.attached(key));
      const groups = this.options.groups().filter(({ limits }) => hasBudgets(limits));
      const budgeted = keys.filter(({ limits }) => hasBudgets(limits));
      this.states = [...(await this.budgets(budgeted.slice(0, budgetedMax))), ...(await this.groupBudgets(groups.slice(0, budgetedMax)))];
      const states = [...this.states];
      const { ofAll, onCheck } = this.options;
      const hasOtherKeys = known.length - inFile === storedKeysMax || budgeted.length > budgetedMax;
      this.isWhole = !hasOtherKeys && groups.length <= budgetedMax;
      if (ofAll && hasOtherKeys) {
        const others = await this.otherKeys();
        keys.push(...others);
        states.push(...(await this.budgets(others.filter(({ limits }) => hasBudgets(limits)))));
      }
      if (ofAll) states.push(...(await this.groupBudgets(this.otherGroups(groups))));
      await onCheck(states, keys);
    } catch (error) {
      // That the store is away is reported elsewhere.
      if (!(error instanceof StorageError)) this.options.onBug(error);
    } finally {
      this.checking = false;
    }
  }

  private attached(key: Key): Key {
    return this.options.attached(key) ?? key;
  }

  /** Some of all keys, from where the last check ended. What is announced of one that is among the first as well is announced once. */
  private async otherKeys(): Promise<readonly Key[]> {
    const keys: Key[] = [];
    let budgeted = 0;
    do {
      const query = { search: null, revoked: false, after: this.keyCursor, limit: pageKeys };
      const page = await keyPage(this.options, query);
      const attached = page.keys.map(({ key }) => this.attached(key));
      keys.push(...attached);
      budgeted += attached.filter(({ limits }) => hasBudgets(limits)).length;
      this.keyCursor = page.next;
    } while (this.keyCursor !== null && keys.length < storedKeysMax && budgeted < budgetedMax);
    return keys;
  }

  private otherGroups(groups: readonly Group[]): readonly Group[] {
    const others = groups.slice(budgetedMax);
    const from = this.groupsSeen < others.length ? this.groupsSeen : 0;
    this.groupsSeen = from + budgetedMax;
    return others.slice(from, this.groupsSeen);
  }

  private async budgets(keys: readonly Key[]): Promise<readonly BudgetState[]> {
    const states: BudgetState[] = [];
    for (const key of keys) {
      states.push(...(await budgetSpending(this.options, key)).map((spending) => this.stateOf("key", key, spending)));
    }
    return states;
  }

  private async groupBudgets(groups: readonly Group[]): Promise<readonly BudgetState[]> {
    const states: BudgetState[] = [];
    for (const group of groups) {
      states.push(...(await groupSpending(this.options, group)).map((spending) => this.stateOf("group", group, spending)));
    }
    return states;
  }

  private stateOf(of: BudgetState["of"], { id, name }: Pick<Key, "id" | "name">, spending: BudgetSpending): BudgetState {
    return toldBudget({ of, id, name }, spending, { refusals: this.refusals, nowMs: this.options.wallMs() });
  }
}

const everyMs = 60_000;
const storedKeysMax = 1_000;
/** The store gives no longer pages. */
const pageKeys = 200;
/** Each takes a query or two. */
const budgetedMax = 200;
