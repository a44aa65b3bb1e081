// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StorageError, type BudgetHoldRequest, type BudgetStorage } from "../../src/gateway/storage.ts";
import { matchesPattern } from "../../src/keys/allow.ts";
import { LedgerOfCalls } from "../support/budget-calls.ts";
import { settleHolds, type Spending } from "../../src/store/tables/budget-table.ts";
import type { Database } from "../../src/store/database.ts";
import { sql } from "../../src/store/sql.ts";
import { engines } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { numRuns } from "../support/properties.ts";
import { storageWorld, errorKind } from "../support/storage-world.ts";
import { budgetOfKey } from "../support/limits.ts";

const dayMs = 86_400_000;
const today = 20_000 * dayMs;
const longMs = 600_000;
const ask: BudgetHoldRequest = {
  budget: "key",
  ownerId: "key",
  models: null,
  limitNanos: 100,
  sinceMs: today,
  holder: "p1",
  need: 1,
  wish: 10,
  ttlMs: longMs,
};

/** As the drain does it: the sums and the holds in one transaction. */
async function spend(
  database: Database,
  holder: string | null,
  spent: readonly { readonly keyId: string; readonly model: string; readonly nanos: number; readonly atMs: number }[],
): Promise<void> {
  await database.transaction(async (transaction) => {
    for (const { keyId, model, nanos, atMs } of spent) {
      await add(transaction, "days", keyId, Math.floor(atMs / dayMs) * dayMs, model, nanos);
      await add(transaction, "hours", keyId, Math.floor(atMs / 3_600_000) * 3_600_000, model, nanos);
    }
    if (holder !== null) await settleHolds(transaction, holder, paid(spent));
  });
}

/** What calls of keys cost, by their models. */
function paid(
  spent: readonly { readonly keyId: string; readonly model: string; readonly nanos: number; readonly atMs?: number }[],
): readonly Spending[] {
  return spent.map(({ keyId, ...rest }) => ({ ownerId: keyId, asOwner: false, channel: "c", tags: [], operation: "chat", ...rest }));
}

async function add(database: Database, table: "days" | "hours", keyId: string, atMs: number, model: string, nanos: number): Promise<void> {
  const sums = table === "days" ? sql`usage_days` : sql`usage_hours`;
  await database.run(sql`
    insert into ${sums} (key_id, at_ms, model, channel, operation, calls, failed, prompt_tokens, cached_tokens, completion_tokens,
      reasoning_tokens, audio_ms, characters, nanos, unpriced, uncertain, estimated)
    values (${keyId}, ${atMs}, ${model}, 'c', 'chat', 1, 0, 0, 0, 0, 0, 0, 0, ${nanos}, 0, 0, 0)
    on conflict (key_id, at_ms, model, channel, operation) do update set nanos = ${sums}.nanos + excluded.nanos, calls = ${sums}.calls + 1`);
}

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`budgets in ${engine.name}`, () => {
    test("grant at most what is left, and report what is spent and held", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      expect(await budgets.hold(ask)).toMatchObject({ ok: true, nanos: 10, spentNanos: 0 });
      expect(await budgets.hold({ ...ask, holder: "p2", wish: 70 })).toMatchObject({ ok: true, nanos: 70, spentNanos: 0 });
      await spend(world.database, "p2", [{ keyId: "key", model: "m", nanos: 30, atMs: today }]);
      // p1 holds 10, p2 40 of its 70, and 30 are spent.
      expect(await budgets.hold({ ...ask, need: 21, wish: 50 })).toMatchObject({ ok: false, spentNanos: 30, heldNanos: 50 });
      expect(await budgets.hold({ ...ask, need: 20, wish: 50 })).toMatchObject({ ok: true, nanos: 20, spentNanos: 30 });
      expect(await budgets.hold({ ...ask, need: 0, wish: 0 })).toMatchObject({ ok: false, spentNanos: 30, heldNanos: 70 });
      // More was spent than was held: nothing is left, and nothing becomes negative.
      await spend(world.database, "p1", [{ keyId: "key", model: "m", nanos: 500, atMs: today }]);
      expect(await budgets.hold(ask)).toMatchObject({ ok: false, spentNanos: 530, heldNanos: 40 });
      expect(await budgets.hold({ ...ask, budget: "other", ownerId: "other" })).toMatchObject({ ok: true, nanos: 10 });
    });

    test("reject invalid amounts", async () => {
      await using world = await storageWorld(engine, today);
      const bad: readonly Partial<BudgetHoldRequest>[] = [{ need: -1 }, { wish: Number.NaN }, { limitNanos: 0.5 }, { limitNanos: 1e300 }];
      for (const one of bad) expect(await errorKind(world.storage.budgets.hold({ ...ask, ...one }))).toBe("invalid");
      expect(await errorKind(world.storage.budgets.renew("p1", [{ budget: "key", nanos: -5 }], longMs))).toBe("invalid");
    });

    test("count days from midnight, hours from any other time, and drop the holds of past periods", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      const atMs = today + 5 * 3_600_000 + 1;
      await spend(world.database, null, [
        { keyId: "key", model: "m", nanos: 7, atMs: today - 1 },
        { keyId: "key", model: "m", nanos: 11, atMs: today },
        { keyId: "key", model: "m", nanos: 13, atMs },
      ]);
      const spentSince = async (sinceMs: number): Promise<number> => (await budgets.hold({ ...ask, sinceMs, wish: 1 })).spentNanos;
      expect(await spentSince(today)).toBe(24);
      expect(await spentSince(today - dayMs)).toBe(31);
      expect(await spentSince(0)).toBe(31);
      expect(await spentSince(today + 5 * 3_600_000)).toBe(13);
      expect(await spentSince(today + 6 * 3_600_000)).toBe(0);
      const rows = await world.database.all(sql`select since_ms, nanos from budget_holds`);
      expect(rows).toEqual([{ since_ms: today + 6 * 3_600_000, nanos: 1 }]);
      // A late receipt of the period before was not paid from the hold of this one.
      await spend(world.database, "p1", [{ keyId: "key", model: "m", nanos: 1, atMs }]);
      expect(await budgets.hold({ ...ask, sinceMs: today + 6 * 3_600_000, need: 100 })).toMatchObject({
        ok: false,
        spentNanos: 0,
        heldNanos: 1,
      });
    });

    test("for some models count exactly the models that match the pattern", async () => {
      await using world = await storageWorld(engine, today);
      const names = ["big", "BIG", "big-1", "Big-1", "xbig-1", "big-1-mini", "b%g", "b_g", "a*b", "ab", "aXb", "äöü-1", "😀-1", "1", "aba"];
      await spend(
        world.database,
        null,
        names.map((model, at) => ({ keyId: "key", model, nanos: 2 ** at, atMs: today })),
      );
      const limitNanos = 2 ** names.length;
      const spentOf = async (models: string): Promise<number> => {
        const budget = `key ${models}`;
        const { spentNanos } = await world.storage.budgets.hold({ ...ask, budget, models, limitNanos, need: 0, wish: 0 });
        return spentNanos;
      };
      const expected = (pattern: string): number =>
        names.reduce((sum, model, at) => sum + (matchesPattern(pattern, model) ? 2 ** at : 0), 0);
      for (const pattern of [
        "*",
        "big",
        "big*",
        "*-1",
        "b*g",
        "b%g",
        "b_g",
        "*i*-*",
        "a*b",
        "ab*ab",
        "a*a",
        "ä*",
        "😀*",
        "*😀-1",
        "**",
        "",
        "'",
      ]) {
        expect([pattern, await spentOf(pattern)]).toEqual([pattern, expected(pattern)]);
      }
      const piece = fc.constantFrom("*", "b", "B", "ig", "-1", "%", "_", "a", "😀", "x", "\\", "!");
      await fc.assert(
        fc.asyncProperty(fc.array(piece, { maxLength: 5 }), async (pieces) => {
          const pattern = pieces.join("");
          expect(await spentOf(pattern)).toBe(expected(pattern));
        }),
        { numRuns: numRuns(40) },
      );
    });

    test("for some models count nothing of models that an earlier rule matches, spent or held", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      const names = ["big", "BIG", "big-1", "big-1-mini", "small", "small-mini", "b%g", "😀-mini", "mini"];
      const spent = names.map((model, at) => ({ keyId: "key", model, nanos: 2 ** at, atMs: today }));
      await spend(world.database, null, spent);
      const limitNanos = 2 ** (names.length + 1);
      const piece = fc.constantFrom("*", "b", "B", "ig", "-1", "-mini", "%", "small", "😀");
      const pattern = fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join(""));
      const rulesGiven = [
        ["big-1", "big*", "*"],
        ["*-mini", "big*", "*-1*", "*"],
        ["*", "big"],
        ["*i*-*", "b*"],
      ];
      const holds = async (rules: readonly string[]): Promise<void> => {
        await budgets.release("p1");
        const expected = rules.map((_, at) =>
          names.reduce((sum, name, bit) => sum + (rules.findIndex((rule) => matchesPattern(rule, name)) === at ? 2 ** bit : 0), 0),
        );
        const left: number[] = [];
        for (const [at, models] of rules.entries()) {
          const exceptModels = rules.slice(0, at);
          const own = { ...ask, budget: `key ${at} ${models}`, models, exceptModels, limitNanos, need: 1, wish: limitNanos };
          const { spentNanos } = await budgets.hold(own);
          expect([rules, models, spentNanos]).toEqual([rules, models, expected[at]!]);
          left.push(limitNanos - spentNanos);
        }
        // All of it is spent once more, and taken off the holds that it was paid from.
        await settleHolds(world.database, "p1", paid(spent));
        const rows = await world.database.all<{ nanos: number }>(sql`select nanos from budget_holds where holder = 'p1' order by budget`);
        const byBudget = left.map((nanos, at) => nanos - expected[at]!);
        expect(rows.map(({ nanos }) => nanos)).toEqual(byBudget);
      };
      for (const rules of rulesGiven) await holds(rules);
      await fc.assert(fc.asyncProperty(fc.uniqueArray(pattern, { minLength: 1, maxLength: 4 }), holds), { numRuns: 25 });
    });

    test("for some models follow a change of the earlier rules, and are not affected by a damaged row", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      const big = { ...ask, budget: "key big*", models: "big*", wish: 20 };
      const rowNanos = async (): Promise<number | undefined> =>
        (await world.database.all<{ nanos: number }>(sql`select nanos from budget_holds`))[0]?.nanos;
      await budgets.hold({ ...big, exceptModels: ["big-1"] });
      await settleHolds(world.database, "p1", paid([{ keyId: "key", model: "big-1", nanos: 5 }]));
      expect(await rowNanos()).toBe(20);
      await budgets.hold({ ...big, exceptModels: [] });
      await settleHolds(world.database, "p1", paid([{ keyId: "key", model: "big-1", nanos: 5 }]));
      expect(await rowNanos()).toBe(35);
      for (const text of ["", "{", "{}", "[1]", "null"]) {
        await world.database.run(sql`update budget_holds set except_models = ${text}`);
        await settleHolds(world.database, "p1", paid([{ keyId: "key", model: "big-1", nanos: 5 }]));
        expect(await rowNanos()).toBe(35);
      }
      await budgets.hold(big);
      await settleHolds(world.database, "p1", paid([{ keyId: "key", model: "big-1", nanos: 5 }]));
      expect(await rowNanos()).toBe(50);
    });

    test("are not spent by a process that could not reach the store for so long that its hold may have expired", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      const clock = new Clock(today);
      let cut = false;
      let inFlight = 0;
      const reached = async <T>(work: () => Promise<T>): Promise<T> => {
        if (cut) throw new StorageError("unavailable", "cut off");
        inFlight += 1;
        return work().finally(() => (inFlight -= 1));
      };
      const far: Pick<BudgetStorage, "hold" | "renew" | "wanted"> = {
        hold: (wanted) => reached(() => budgets.hold(wanted)),
        renew: (holder, kept, ttlMs) => reached(() => budgets.renew(holder, kept, ttlMs)),
        wanted: (holder) => reached(() => budgets.wanted(holder)),
      };
      const times = { nowMs: () => clock.nowMs, wallMs: () => clock.nowMs, after: clock.after, drainedMs: () => 0 };
      const cutOff = new LedgerOfCalls({ storage: far, holder: "cut-off", ...times });
      const other = new LedgerOfCalls({ storage: budgets, holder: "other", ...times });
      const line = budgetOfKey("key", 1_000, "total");
      /** Spends as long as it is let, one at a time; nothing of it reaches the store as a receipt. */
      const spendAll = async (ledger: LedgerOfCalls): Promise<readonly [spent: number, why: string]> => {
        for (let spent = 0; ; spent += 10) {
          const asked = ledger.reserve(line, 10);
          let reserved: Awaited<typeof asked> | null = null;
          const answered = Promise.resolve(asked).then((answer) => (reserved = answer));
          // Time passes only while nobody waits for the store, which takes the time it takes.
          while (ledger === cutOff && reserved === null) await (inFlight > 0 ? Bun.sleep(1) : clock.pass(100));
          reserved = await answered;
          if (!reserved.ok) return [spent, reserved.why];
          reserved.settle(10);
        }
      };

      // The first call shows what is left, the second comes with a fourth of it.
      for (const nanos of [10, 160]) {
        const reserved = await cutOff.reserve(line, nanos);
        if (reserved.ok) reserved.settle(0);
      }
      expect(cutOff.figures("key")!.freeNanos).toBeGreaterThan(100);
      // What is still under way would hold its money for longer, after it was made to expire below.
      await eventually("nothing is under way to the store", () => inFlight === 0);
      cut = true;
      await clock.pass(601_000);
      // As old as it would be by then; the time of a shared server is its own.
      await world.database.run(sql`update budget_holds set expires_ms = 1 where holder = 'cut-off'`);
      expect(await spendAll(other)).toEqual([1_000, "spent"]);
      expect(await spendAll(cutOff)).toEqual([0, "unavailable"]);
      cut = false;
      await clock.pass(3_000);
      expect(await spendAll(cutOff)).toEqual([0, "spent"]);
    });

    test("deduct a cost from each hold that paid for it: the key's, and that of its models", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      await budgets.hold({ ...ask, wish: 50 });
      await budgets.hold({ ...ask, wish: 50, budget: "key big", models: "big-*" });
      await budgets.hold({ ...ask, wish: 50, budget: "key small", models: "small" });
      await budgets.hold({ ...ask, wish: 50, holder: "p2" });
      await budgets.hold({ ...ask, wish: 50, budget: "other", ownerId: "other" });
      await settleHolds(
        world.database,
        "p1",
        paid([
          { keyId: "key", model: "big-1", nanos: 5 },
          { keyId: "key", model: "BIG-1", nanos: 7 },
          { keyId: "key", model: "small", nanos: 80 },
          { keyId: "nobody", model: "m", nanos: 9 },
        ]),
      );
      await settleHolds(world.database, "p1", []);
      const rows = await world.database.all<{ budget: string; holder: string; nanos: number }>(
        sql`select budget, holder, nanos from budget_holds order by budget, holder`,
      );
      expect(rows.map(({ budget, holder, nanos }) => `${budget} ${holder} ${nanos}`)).toEqual([
        "key p1 0",
        "key p2 50",
        "key big p1 45",
        "key small p1 0",
        "other p1 50",
      ]);
    });

    test("get back what a holder does not need, and nothing that it never held", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      await budgets.hold({ ...ask, wish: 60 });
      await budgets.hold({ ...ask, wish: 40, holder: "p2" });
      await budgets.renew(
        "p1",
        [
          { budget: "key", nanos: 25 },
          { budget: "nothing", nanos: 5 },
        ],
        longMs,
      );
      expect(await budgets.hold({ ...ask, holder: "p3", need: 36, wish: 36 })).toMatchObject({ ok: false, heldNanos: 65 });
      await budgets.renew("p1", [{ budget: "key", nanos: 90 }], longMs);
      await budgets.renew("p1", [], longMs);
      expect(await budgets.hold({ ...ask, holder: "p3", need: 35, wish: 99 })).toMatchObject({ ok: true, nanos: 35 });
      await budgets.release("p1");
      expect(await budgets.hold({ ...ask, holder: "p3", need: 25, wish: 99 })).toMatchObject({ ok: true, nanos: 25 });
    });

    test("ask live holders to return what they do not need, report what is held by whom, and clear the request when they answer", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      await budgets.hold({ ...ask, wish: 60 });
      await budgets.hold({ ...ask, wish: 30, holder: "p2" });
      // One that has not been heard of for long would not answer.
      await budgets.hold({ ...ask, wish: 10, holder: "gone", ttlMs: longMs - 60_000 });
      const short = { ...ask, holder: "p3", need: 20, wish: 20 };
      const held = { heldNanos: 100, ownNanos: 0, others: 3 };
      expect(await budgets.hold(short)).toEqual({ ok: false, spentNanos: 0, ...held, awaited: 0 });
      expect([await budgets.wanted("p1"), await budgets.wanted("p2")]).toEqual([[], []]);
      expect(await budgets.hold({ ...short, recall: true })).toEqual({ ok: false, spentNanos: 0, ...held, awaited: 2 });
      expect([await budgets.wanted("p1"), await budgets.wanted("p2"), await budgets.wanted("gone")]).toEqual([["key"], ["key"], []]);
      // What is prolonged is no answer.
      await budgets.renew("p1", [{ budget: "key", nanos: 60 }], longMs);
      await budgets.renew("p2", [{ budget: "key", nanos: 30, back: 15, answers: true }], longMs);
      expect(await budgets.hold(short)).toMatchObject({ ok: false, heldNanos: 85, awaited: 1 });
      await budgets.renew("p1", [{ budget: "key", nanos: 60, back: 55, answers: true }], longMs);
      expect(await budgets.wanted("p1")).toEqual([]);
      expect(await budgets.hold({ ...short, wish: 60, sharers: 4 })).toEqual({ ok: true, nanos: 20, spentNanos: 0, leftNanos: 50 });
      expect(await budgets.hold({ ...short, need: 5, waiting: 12, wish: 60, sharers: 40 })).toMatchObject({ ok: true, nanos: 12 });
      expect(await budgets.hold({ ...short, back: 32, need: 71, wish: 71 })).toMatchObject({ ok: false, ownNanos: 0, heldNanos: 30 });
    });

    test("get back what a holder returns even if it does not know how much of its spending has been deducted", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      await budgets.hold({ ...ask, wish: 100 });
      await spend(world.database, "p1", [{ keyId: "key", model: "m", nanos: 60, atMs: today }]);
      // It still holds 40, all of them free; that the 60 are counted it has not heard.
      await budgets.renew("p1", [{ budget: "key", nanos: 60, back: 40 }], longMs);
      expect(await budgets.hold({ ...ask, holder: "p2", need: 40, wish: 40 })).toMatchObject({ ok: true, nanos: 40, leftNanos: 0 });
    });

    test("get back the hold of a dead process when it expires, and not before; a live one renews it", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets } = world.storage;
      // The time of a shared server is its own, so this test waits on it.
      const ttlMs = engine.name === "sqlite" ? 10_000 : 300;
      await budgets.hold({ ...ask, wish: 60, ttlMs: longMs });
      await budgets.hold({ ...ask, wish: 40, holder: "dead", ttlMs });
      expect(await budgets.hold({ ...ask, holder: "p3", ttlMs })).toMatchObject({ ok: false, spentNanos: 0, heldNanos: 100 });
      if (engine.name === "sqlite") {
        world.clock.nowMs += ttlMs - 1;
        expect(await budgets.hold({ ...ask, holder: "p3" })).toMatchObject({ ok: false });
        world.clock.nowMs += 1;
      }
      await eventually("the dead one's money is back", async () => (await budgets.hold({ ...ask, holder: "p3", need: 40, wish: 40 })).ok);
      expect(await budgets.hold({ ...ask, holder: "p4" })).toMatchObject({ ok: false, spentNanos: 0, heldNanos: 100 });
      await budgets.renew("p1", [{ budget: "key", nanos: 60 }], 1);
      if (engine.name === "sqlite") world.clock.nowMs += 1;
      await eventually("a life that was cut short ends", async () => (await budgets.hold({ ...ask, holder: "p4", need: 60, wish: 60 })).ok);
    });

    test("for ten calls are granted to exactly ten of many concurrent requests", async () => {
      await using world = await storageWorld(engine, today, true);
      const stores = [world.storage, (await world.another()).storage];
      for (const keyId of ["k1", "k2", "k3"]) {
        const asks = Array.from({ length: 24 }, (_, at) =>
          stores[at % 2]!.budgets.hold({ ...ask, budget: keyId, ownerId: keyId, holder: `p${at % 7}`, need: 10, wish: 10 }),
        );
        const answers = await Promise.all(asks);
        expect(answers.filter(({ ok }) => ok).length).toBe(10);
        const [row] = await world.database.all<{ nanos: number }>(
          sql`select cast(sum(nanos) as bigint) as nanos from budget_holds where budget = ${keyId}`,
        );
        expect(row?.nanos).toBe(100);
      }
    });

    test("grant nothing extra while held money becomes spent money", async () => {
      await using world = await storageWorld(engine, today, true);
      const second = await world.another();
      await world.storage.budgets.hold({ ...ask, wish: 100 });
      let over = false;
      const drain = async (): Promise<void> => {
        for (let at = 0; at < 50; at++) await spend(world.database, "p1", [{ keyId: "key", model: `m${at % 3}`, nanos: 2, atMs: today }]);
        over = true;
      };
      const draining = drain();
      const answers: unknown[] = [];
      while (!over) answers.push(await second.storage.budgets.hold({ ...ask, holder: "p2" }));
      await draining;
      expect(answers.length).toBeGreaterThan(0);
      expect(answers.filter((answer) => (answer as { ok: boolean }).ok)).toEqual([]);
      expect(await second.storage.budgets.hold({ ...ask, holder: "p2" })).toMatchObject({ ok: false, spentNanos: 100, heldNanos: 0 });
    });

    test("are never overspent, whatever processes hold, spend, return and leave behind when they die", async () => {
      const runs = engine.name === "sqlite" ? 6 : 3;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(step, { minLength: 5, maxLength: 12 }), { minLength: 3, maxLength: 5 }),
          fc.integer({ min: 20, max: 200 }),
          async (scripts, limitNanos) => {
            await using world = await storageWorld(engine, today, true);
            const limits = { all: limitNanos, big: Math.ceil(limitNanos / 2) };
            const second = await world.another();
            const processes = scripts.map((_, at) => new Process(`p${at}`, limits, at % 2 === 0 ? world : second));
            let over = false;
            const watch = async (): Promise<void> => {
              for (; !over;) expect(await worst(world.database, limits)).toBeLessThanOrEqual(0);
            };
            const watching = watch();
            await Promise.all(scripts.map((script, at) => processes[at]!.play(script))).finally(() => (over = true));
            await watching;
            for (const process of processes) await process.step({ kind: "die", part: 1 });
            expect(await worst(world.database, limits)).toBeLessThanOrEqual(0);
            // Nothing is lost either: what nobody spent can be held again.
            const spent = processes.reduce((sum, process) => sum + process.spent, 0);
            const rest = await world.storage.budgets.hold({ ...ask, limitNanos, holder: "last", need: 0, wish: limitNanos });
            expect(rest.spentNanos).toBe(spent);
            expect(rest.ok ? rest.nanos : 0).toBe(limitNanos - spent);
          },
        ),
        { numRuns: runs, endOnFailure: true },
      );
    }, 120_000);
  });
}

/** Moves when it is told to, and rings what was asked for in the meantime. */
class Clock {
  private readonly timers = new Set<{ readonly atMs: number; readonly ring: () => void }>();

  constructor(public nowMs: number) {}

  readonly after = (ms: number, ring: () => void): (() => void) => {
    const timer = { atMs: this.nowMs + ms, ring };
    this.timers.add(timer);
    return () => this.timers.delete(timer);
  };

  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    for (;;) {
      // What was rung may have asked the store.
      await Bun.sleep(0);
      const [next] = [...this.timers].toSorted((one, other) => one.atMs - other.atMs);
      if (next === undefined || next.atMs > endMs) break;
      this.timers.delete(next);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.ring();
    }
    this.nowMs = endMs;
  }
}

interface Step {
  readonly kind: "hold" | "spend" | "spend big" | "drain" | "keep" | "die";
  readonly part: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom("hold", "hold", "spend", "spend", "spend big", "spend big", "drain", "drain", "keep", "die"),
  part: fc.double({ min: 0, max: 1, noNaN: true }),
});

interface Limits {
  readonly all: number;
  readonly big: number;
}

/** A gateway process: it spends at most what it holds, and its journal survives it. */
class Process {
  spent = 0;
  private held: Limits = { all: 0, big: 0 };
  private journal: { keyId: string; model: string; nanos: number; atMs: number }[] = [];

  constructor(
    private readonly holder: string,
    private readonly limits: Limits,
    private readonly store: { readonly database: Database; readonly storage: { readonly budgets: BudgetStorage } },
  ) {}

  async play(script: readonly Step[]): Promise<void> {
    for (const one of script) await this.step(one);
  }

  async step({ kind, part }: Step): Promise<void> {
    const { budgets } = this.store.storage;
    switch (kind) {
      case "hold": {
        const wish = Math.ceil(part * this.limits.all);
        const own = { ...ask, holder: this.holder, need: Math.floor(wish / 2), wish };
        const all = await budgets.hold({ ...own, limitNanos: this.limits.all });
        const big = await budgets.hold({ ...own, limitNanos: this.limits.big, budget: "key big", models: "big*" });
        this.held = { all: this.held.all + (all.ok ? all.nanos : 0), big: this.held.big + (big.ok ? big.nanos : 0) };
        return;
      }
      case "spend":
        return this.take(Math.floor(part * this.held.all), "small");
      case "spend big":
        return this.take(Math.floor(part * Math.min(this.held.all, this.held.big)), "big-1");
      case "drain": {
        const drained = this.journal.splice(0, 1 + Math.floor(part * 3));
        return spend(this.store.database, this.holder, drained);
      }
      case "keep": {
        const kept = { all: Math.floor(part * this.held.all), big: Math.floor(part * this.held.big) };
        const waiting = (big: boolean): number =>
          this.journal.reduce((sum, { model, nanos }) => sum + (!big || model === "big-1" ? nanos : 0), 0);
        this.held = kept;
        return budgets.renew(
          this.holder,
          [
            { budget: "key", nanos: kept.all + waiting(false) },
            { budget: "key big", nanos: kept.big + waiting(true) },
          ],
          longMs,
        );
      }
      case "die":
        // The next life drains what this one left, and begins with nothing.
        this.held = { all: 0, big: 0 };
        await spend(this.store.database, this.holder, this.journal.splice(0));
        return budgets.release(this.holder);
    }
  }

  private take(nanos: number, model: string): void {
    this.held = { all: this.held.all - nanos, big: this.held.big - (model === "big-1" ? nanos : 0) };
    this.journal.push({ keyId: "key", model, nanos, atMs: today });
    this.spent += nanos;
  }
}

/** By how much the worse of both budgets is exceeded by what is spent and held at this moment. */
async function worst(database: Database, limits: Limits): Promise<number> {
  const rows = await database.all<{ what: string; nanos: number }>(sql`
    select model as what, nanos from usage_days union all select budget as what, nanos from budget_holds`);
  const total = (...whats: readonly string[]): number => rows.reduce((sum, { what, nanos }) => sum + (whats.includes(what) ? nanos : 0), 0);
  return Math.max(total("small", "big-1", "key") - limits.all, total("big-1", "key big") - limits.big);
}
