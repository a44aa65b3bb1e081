import { describe, expect, test } from "bun:test";
import { BudgetWatch, type BudgetWatchOptions } from "../../../src/app/telemetry/budget-watch.ts";
import { StorageError, type KeyQuery, type Storage } from "../../../src/gateway/storage.ts";
import type { Group } from "../../../src/keys/group.ts";
import type { Key } from "../../../src/keys/key.ts";
import { defaultKey } from "../../../src/keys/stored-key.ts";
import { budgetId } from "../../../src/limits/limit-id.ts";
import { unlimitedRates, type Limits } from "../../../src/limits/limits.ts";
import type { BudgetState } from "../../../src/telemetry/metrics/state-metrics.ts";

const keyNamed = (name: string): Key => ({ ...defaultKey, id: name, name });

const unexpected = (error: unknown): never => {
  throw error;
};

/** As the store does it: by id, and at most 200 keys in a page. */
function listing(ids: readonly string[]): Storage {
  const list = async ({ after, limit }: KeyQuery): Promise<readonly Key[]> =>
    ids
      .filter((id) => id > (after ?? ""))
      .slice(0, Math.min(limit, 200))
      .map(keyNamed);
  return { keys: { list } } as unknown as Storage;
}

test("a thousand keys of the store are looked at, and not the first page of them alone", async () => {
  const ids = Array.from({ length: 1_100 }, (_, at) => `k-${String(at).padStart(4, "0")}`);
  const { promise, resolve } = Promise.withResolvers<readonly Key[]>();
  const watch = new BudgetWatch({
    reports: listing(ids),
    wallMs: () => 1e12,
    fileKeys: () => [keyNamed("file:own")],
    attached: (key) => key,
    groups: () => [],
    ofAll: false,
    refusals: async () => [],
    onBug: unexpected,
    onCheck: async (_, keys) => resolve(keys),
  });
  watch.latest();
  expect((await promise).map(({ id }) => id)).toEqual(["file:own", ...ids.slice(0, 1_000)]);
});

describe("where somebody wants to hear of all", () => {
  const limits: Limits = { ...defaultKey.limits, budget: { nanos: 1e9, period: "total" } };

  /** The ids of the keys and of the budgets of each look. */
  async function looks(count: number, options: Partial<BudgetWatchOptions>, store: Storage) {
    const seen: { readonly keys: readonly string[]; readonly budgets: readonly string[]; readonly shown: readonly string[] }[] = [];
    let done = Promise.withResolvers<void>();
    let nowMs = 1e12;
    const watch: BudgetWatch = new BudgetWatch({
      reports: store,
      wallMs: () => (nowMs += 60_000),
      fileKeys: () => [],
      attached: (key) => key,
      groups: () => [],
      ofAll: true,
      refusals: async () => [],
      onBug: unexpected,
      onCheck: async (budgets, keys) => {
        seen.push({ keys: keys.map(({ id }) => id), budgets: budgets.map(({ id }) => id), shown: watch.states.map(({ id }) => id) });
        done.resolve();
      },
      ...options,
    });
    for (let look = 0; look < count; look += 1) {
      done = Promise.withResolvers<void>();
      watch.latest();
      await done.promise;
      // What began the look has to see that it has ended.
      await Promise.resolve();
      await Promise.resolve();
    }
    return seen;
  }
  const receipts = { usage: async () => [], payments: async () => [] };
  const numbered = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `k-${String(at).padStart(5, "0")}`);

  test("every key is looked at in turn, and the first ones each time", async () => {
    const ids = numbered(3_500);
    const seen = await looks(4, {}, { ...listing(ids), receipts } as unknown as Storage);
    for (const { keys } of seen) expect(keys.slice(0, 1_000)).toEqual(ids.slice(0, 1_000));
    expect([...new Set(seen.flatMap(({ keys }) => keys))].toSorted()).toEqual([...ids]);
    expect(seen.map(({ keys }) => keys.length <= 2_000)).toEqual([true, true, true, true]);
  });

  test("every budget is, of the file and of the store, and the metrics show the same ones each time", async () => {
    const fileKeys = numbered(250).map((id) => ({ ...keyNamed(`file:${id}`), limits }));
    const ids = numbered(300);
    const store = { keys: { list: async (query: KeyQuery) => (await listing(ids).keys.list(query)).map((key) => ({ ...key, limits })) } };
    const seen = await looks(3, { fileKeys: () => fileKeys }, { ...store, receipts } as unknown as Storage);
    expect(new Set(seen.flatMap(({ budgets }) => budgets))).toEqual(new Set([...fileKeys.map(({ id }) => id), ...ids]));
    for (const { shown, budgets } of seen) {
      expect(shown).toEqual(fileKeys.slice(0, 200).map(({ id }) => id));
      // A look is bounded: the first ones, and as many others as fill a page after that.
      expect(budgets.length).toBeLessThanOrEqual(600);
    }
  });

  test("and who asks for the last look is told whether it was at all of them", async () => {
    const groups = numbered(201).map((id) => ({ id, name: id, limits }) as unknown as Group);
    const whole = async (options: Partial<BudgetWatchOptions>, ids: readonly string[] = []): Promise<boolean> => {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const watch: BudgetWatch = new BudgetWatch({
        onBug: unexpected,
        refusals: async () => [],
        reports: { ...listing(ids), receipts } as unknown as Storage,
        wallMs: () => 1e12,
        fileKeys: () => [],
        attached: (key) => key,
        groups: () => [],
        ofAll: false,
        onCheck: async () => resolve(watch.latest().isWhole),
        ...options,
      });
      watch.latest();
      return promise;
    };
    const fileKeys = numbered(201).map((id) => ({ ...keyNamed(`file:${id}`), limits }));
    expect(await whole({ groups: () => groups.slice(1), fileKeys: () => fileKeys.slice(1) })).toBe(true);
    expect(await whole({ groups: () => groups })).toBe(false);
    expect(await whole({ fileKeys: () => fileKeys })).toBe(false);
    expect(await whole({}, numbered(1_000))).toBe(false);
  });

  test("every group with a budget is", async () => {
    const groups = numbered(450).map((id) => ({ id, name: id, limits }) as unknown as Group);
    const seen = await looks(3, { groups: () => groups }, { ...listing([]), receipts } as unknown as Storage);
    expect(seen.map(({ budgets }) => budgets.length)).toEqual([400, 250, 400]);
    expect(new Set(seen.flatMap(({ budgets }) => budgets))).toEqual(new Set(groups.map(({ id }) => id)));
  });
});

test("a budget that refused a call in its present period is known by its key and models, until its limit is another one", async () => {
  const nowMs = Date.parse("2026-02-10T12:09:00Z");
  const hourMs = Date.parse("2026-02-10T12:00:00Z");
  const budget = { nanos: 1e9, period: "hour" } as const;
  const limits: Limits = {
    ...defaultKey.limits,
    budget,
    models: ["big-*", "#images"].map((pattern) => ({ ...unlimitedRates, pattern, budget })),
    budgets: [{ name: "images", models: null, operations: ["image"], channels: null, ...budget }],
  };
  const { promise, resolve } = Promise.withResolvers<readonly BudgetState[]>();
  const refused = (id: string, atMs = hourMs, limitNanos = 1e9) => ({ budget: id, limitNanos, atMs });
  const watch = new BudgetWatch({
    reports: { ...listing([]), receipts: { usage: async () => [], payments: async () => [] } } as unknown as Storage,
    wallMs: () => nowMs,
    fileKeys: () => ["a", "b", "c"].map((id) => ({ ...keyNamed(id), name: id.toUpperCase(), limits })),
    attached: (key) => key,
    groups: () => [{ id: "grp_web", name: "web", limits } as unknown as Group],
    ofAll: false,
    refusals: async () => [
      ...[refused("a"), refused("a big-*"), refused("grp_web #images")],
      ...[refused("b", hourMs - 1), refused("b big-*", hourMs, 2e9), refused("b", hourMs - 1)],
      ...[refused("c", hourMs - 1), refused("c", hourMs), refused(budgetId("c", "#images", null))],
    ],
    onCheck: async (budgets) => resolve(budgets),
    onBug: unexpected,
  });
  watch.latest();
  const states = await promise;
  // A series of a metric or a notice each, also where a rule for models is for one that is called like a budget.
  expect(new Set(states.map(({ id, models }) => `${id} ${models}`)).size).toBe(4 * 4);
  const refusing = states.filter(({ isRefusing }) => isRefusing).map(({ id, name, models }) => `${id} ${name} ${models}`.trim());
  expect(refusing).toEqual(["a A", "a A big-*", "c C", "c C ##images", "grp_web web #images"]);
});

test("a watch that was stopped begins again when it is started", async () => {
  let checks = 0;
  let checked = Promise.withResolvers<void>();
  const watch = new BudgetWatch({
    reports: listing([]),
    wallMs: () => 1e12,
    fileKeys: () => [],
    attached: (key) => key,
    groups: () => [],
    ofAll: false,
    refusals: async () => [],
    onCheck: async () => {
      checks += 1;
      setTimeout(checked.resolve);
    },
    onBug: unexpected,
  });
  for (const count of [1, 2]) {
    checked = Promise.withResolvers();
    watch.start();
    await checked.promise;
    // One that runs is not started twice.
    watch.start();
    expect(checks).toBe(count);
    watch.stop();
  }
});

test("a look is due a minute after the last one, and when the clock was set back", async () => {
  let nowMs = 1e12;
  let looks = 0;
  let looked = Promise.withResolvers<void>();
  const watch = new BudgetWatch({
    reports: listing([]),
    wallMs: () => nowMs,
    fileKeys: () => {
      looks += 1;
      return [];
    },
    attached: (key) => key,
    groups: () => [],
    ofAll: false,
    refusals: async () => [],
    onCheck: async () => void setTimeout(looked.resolve),
    onBug: unexpected,
  });
  for (const passedMs of [0, 60_000, -600_000]) {
    nowMs += passedMs;
    const before = looks;
    looked = Promise.withResolvers();
    watch.latest();
    await Promise.resolve();
    expect(looks).toBe(before + 1);
    await looked.promise;
    nowMs += 59_999;
    watch.latest();
    await Promise.resolve();
    expect(looks).toBe(before + 1);
  }
});

test("a store that is away is no bug, and whatever else goes wrong in a look is told", async () => {
  const bugs: unknown[] = [];
  const errors = [new StorageError("unavailable", "away"), new TypeError("a mistake of ours"), null];
  let nowMs = 1e12;
  let looked = Promise.withResolvers<void>();
  const watch = new BudgetWatch({
    reports: listing([]),
    wallMs: () => (nowMs += 60_000),
    fileKeys: () => [],
    attached: (key) => key,
    groups: () => [],
    ofAll: false,
    refusals: async () => [],
    onCheck: async () => {
      const error = errors.shift();
      setTimeout(looked.resolve);
      if (error instanceof Error) throw error;
    },
    onBug: (error) => bugs.push(error),
  });
  for (const _ of [1, 2, 3]) {
    looked = Promise.withResolvers();
    watch.latest();
    await looked.promise;
  }
  expect(bugs).toEqual([new TypeError("a mistake of ours")]);
});
