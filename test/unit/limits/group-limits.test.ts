import { describe, expect, test } from "bun:test";
import type { Channel, Route } from "../../../src/channels/channel.ts";
import type { AskedCall, Grant, LimitExceeded, Limiter } from "../../../src/gateway/admission/limiter.ts";
import { hasBudget } from "../../../src/gateway/admission/ledger.ts";
import type { Group } from "../../../src/keys/group.ts";
import { GroupTree } from "../../../src/keys/group-tree.ts";
import type { Key } from "../../../src/keys/key.ts";
import { defaultKey } from "../../../src/keys/stored-key.ts";
import { budgetId, ownerOfLimit, rootOfLimit } from "../../../src/limits/limit-id.ts";
import { unlimited, unlimitedRates, type Demand, type Limits } from "../../../src/limits/limits.ts";
import type { BudgetLimit, BudgetRefused, ReservedPeriod, ClockReading } from "../../../src/state/budgets/leased-budget.ts";
import { KeyLimits } from "../../../src/state/key-limits.ts";
import { makeLimiter } from "../../../src/state/limiter.ts";
import { MemoryRateLimits } from "../../../src/state/memory-rate-limits.ts";
import { asks } from "../../support/limits.ts";

const dollar = 1_000_000_000;
const demand = (more: Partial<Demand> = {}): Demand => ({ tokens: 0, audioSeconds: 0, characters: 0, nanos: 0, ...more });

/** Budgets in memory, each exactly as large as it says. */
class Purses {
  readonly readClock = (): ClockReading => ({ nowMs: 0, wallMs: 0 });
  readonly spent = new Map<string, number>();

  reserve({ budget, limitNanos }: BudgetLimit, nanos: number): ReservedPeriod | BudgetRefused {
    const before = this.of(budget);
    if (before + nanos > limitNanos) return { ok: false, why: "spent", spentNanos: before, held: null };
    this.spent.set(budget, before + nanos);
    return { ok: true, settle: (reserved, cost) => void this.spent.set(budget, this.of(budget) - reserved + (cost ?? 0)) };
  }

  of(budget: string): number {
    return this.spent.get(budget) ?? 0;
  }
}

/** An organisation with two teams, one of which has a project; each with these limits. */
function world(limits: { readonly [G in "org" | "web" | "app" | "ads"]?: Partial<Limits> }): {
  readonly limiter: Limiter;
  readonly purses: Purses;
  readonly rates: MemoryRateLimits;
  readonly key: (group: string | null, own?: Partial<Limits>, id?: string) => Key;
} {
  const group = (id: "org" | "web" | "app" | "ads", kind: Group["kind"], parent: string | null): Group => ({
    id,
    name: id,
    kind,
    parent,
    limits: { ...unlimited, ...limits[id] },
    frozen: false,
    defaults: { keys: unlimited, groups: unlimited },
  });
  const tree = new GroupTree([
    group("org", "organisation", null),
    group("web", "team", "org"),
    group("app", "project", "web"),
    group("ads", "team", "org"),
  ]);
  const rates = new MemoryRateLimits(() => 1_000);
  const purses = new Purses();
  const key = (groupId: string | null, own: Partial<Limits> = {}, id = "k1"): Key =>
    tree.attached({ ...defaultKey, id, name: id, group: groupId, limits: { ...unlimited, ...own } })!;
  return { limiter: makeLimiter({ rates, budgets: purses, wallMs: () => Date.parse("2026-02-10T12:00:00Z") }), purses, rates, key };
}

function grant(answer: Grant | LimitExceeded | Promise<Grant | LimitExceeded>): Grant {
  if (answer instanceof Promise || answer.kind === "limit_exceeded") throw new Error("the call was not admitted");
  return answer;
}

function refusal(answer: Grant | LimitExceeded | Promise<Grant | LimitExceeded> | null): string {
  if (answer === null || answer instanceof Promise || answer.kind === "grant") throw new Error("the call was not refused");
  return answer.failure.publicMessage;
}

describe("limits of groups", () => {
  test("count the calls of all keys below, and the message names the level that refused", () => {
    const { limiter, key } = world({ org: { requests: 4 }, web: { requests: 3 }, app: { tokens: 100 } });
    const [one, two, other] = [key("app", {}, "k1"), key("web", {}, "k2"), key("ads", {}, "k3")];
    grant(limiter.admit(one, asks("m", "a"), demand({ tokens: 90 })));
    expect(refusal(limiter.admit(one, asks("m", "b"), demand({ tokens: 11 })))).toStartWith(
      "The project app is limited to 100 tokens per minute,",
    );
    grant(limiter.admit(two, asks("m", "c"), demand()));
    grant(limiter.admit(two, asks("m", "d"), demand()));
    expect(refusal(limiter.admit(one, asks("m", "e"), demand()))).toStartWith("The team web is limited to 3 requests per minute,");
    grant(limiter.admit(other, asks("m", "f"), demand()));
    expect(refusal(limiter.admit(other, asks("m", "g"), demand()))).toStartWith(
      "The organisation org is limited to 4 requests per minute,",
    );
    expect(refusal(limiter.precheck(other))).toStartWith("The organisation org is limited to 4 requests");
  });

  test("take nothing of any level when one refuses", () => {
    const { limiter, key, rates, purses } = world({
      org: { requests: 10, concurrency: 5, budget: { nanos: dollar, period: "month" } },
      web: { requests: 10, concurrency: 5, budget: { nanos: 10 * dollar, period: "month" } },
    });
    const one = key("web", { requests: 10, concurrency: 5 });
    const held = grant(limiter.admit(one, asks("m", "a"), demand({ nanos: dollar })));
    expect(refusal(limiter.admit(one, asks("m", "b"), demand({ nanos: 1 })))).toContain(
      "The budget of the organisation org, $1 a month, is spent.",
    );
    expect(purses.of("web")).toBe(dollar);
    for (const owner of ["org>k1", "org>web", "org>org"]) {
      expect(rates.slotsTaken(`${owner} concurrency`)).toBe(1);
      expect(rates.status({ id: `${owner} requests`, limit: 10, amount: 1 }).remaining).toBe(9);
    }
    held.settle(demand({ nanos: dollar / 2 }));
    expect([purses.of("web"), purses.of("org"), rates.slotsTaken("org>org concurrency")]).toEqual([dollar / 2, dollar / 2, 0]);
    grant(limiter.admit(one, asks("m", "c"), demand({ nanos: dollar / 2 })));
  });

  test("hold a slot of every level while a request is still read, and while its call runs", () => {
    const { limiter, key, rates } = world({ org: { concurrency: 2 }, web: { concurrency: 1 } });
    const reading = limiter.reserveSlot(key("web"), "a");
    if (reading instanceof Promise || reading.kind !== "slot") throw new Error("no slot");
    expect([rates.slotsTaken("org>org concurrency"), rates.slotsTaken("org>web concurrency")]).toEqual([1, 1]);
    const other = limiter.reserveSlot(key("web"), "b");
    expect(other).toMatchObject({ kind: "limit_exceeded", failure: { publicMessage: expect.stringContaining("The team web") } });
    reading.release();
    const running = grant(limiter.admit(key("web"), asks("m", "a"), demand()));
    expect(refusal(limiter.precheck(key("web")))).toContain("The team web is limited to 1 call at the same time");
    grant(limiter.admit(key("ads"), asks("m", "b"), demand()));
    expect(refusal(limiter.precheck(key("ads")))).toContain("The organisation org is limited to 2 calls at the same time");
    running.settle(null);
    expect(limiter.precheck(key("ads"))).toBeNull();
  });

  test("are all looked at for a dry run, which takes nothing", () => {
    const selected = { name: "images", models: null, operations: ["image" as const], channels: null, nanos: 1, period: "month" as const };
    const rule = { ...unlimitedRates, pattern: "big*", tokens: 100, budget: { nanos: 3 * dollar, period: "day" as const } };
    const { limiter, key, rates } = world({
      org: {
        budget: { nanos: 2 * dollar, period: "month" },
        budgets: [selected, { ...selected, name: "large", operations: null, models: ["big*"], nanos: 4 * dollar }],
      },
      web: { concurrency: 0, requests: 5 },
      app: { models: [rule] },
    });
    const one = key("app", { budget: { nanos: 9 * dollar, period: "total" } });
    const told = (model: string, more: Partial<Demand>, spent: readonly (readonly [string, number])[]): readonly string[] =>
      limiter.preview(one, asks(model, "a"), demand(more), new Map(spent)).map(({ failure }) => failure.publicMessage.split(/[,:]/)[0]!);
    const full = "The team web is limited to 0 calls at the same time";
    expect(told("m", { tokens: 500, nanos: dollar }, [[budgetId("org", null, null), dollar]])).toEqual([full]);
    expect(
      told("big-1", { tokens: 500, nanos: dollar }, [
        [budgetId("k1", null, null), 9 * dollar],
        [budgetId("app", "big*", null), 3 * dollar],
        [budgetId("org", null, null), 2 * dollar],
        [budgetId("org", null, "large"), 4 * dollar],
      ]),
    ).toEqual([
      full,
      "This request needs more than all of what the project app is limited to",
      "The budget of this key",
      'The budget of the project app for the models "big*"',
      "The budget of the organisation org",
      "The budget of the organisation org for large",
    ]);
    expect(told("m", { nanos: null }, [])).toEqual(['The budget of this key needs the price of the model "m"', full]);
    expect(rates.status({ id: "org>web requests", limit: 5, amount: 1 }).remaining).toBe(5);
  });

  test("have rules for models on every level, and the first that matches on each level counts", () => {
    const rule = (pattern: string, requests: number) => ({ ...unlimitedRates, pattern, requests, budget: null });
    const { key } = world({ org: { models: [rule("gpt-*", 7)] }, web: { requests: 5, models: [rule("gpt-5", 3), rule("*", 4)] } });
    const limits = new KeyLimits(key("web", { requests: 9 }));
    const ids = (model: string): readonly string[] => limits.for(model).rates.map(({ id, limit }) => `${id}: ${limit}`);
    expect(ids("gpt-5")).toEqual(["org>k1 requests: 9", "org>web requests: 5", "org>web requests gpt-5: 3", "org>org requests gpt-*: 7"]);
    expect(ids("other")).toEqual(["org>k1 requests: 9", "org>web requests: 5", "org>web requests *: 4"]);
    expect(limits.for("gpt-5")).toBe(limits.for("gpt-5"));
  });

  test("are prepared once for all keys of a group, and one without any costs a key nothing", () => {
    const { key } = world({ org: { requests: 5, budget: { nanos: 5, period: "day" } } });
    const [one, other] = [new KeyLimits(key("web")), new KeyLimits(key("ads", {}, "k2"))];
    expect(one.own).toBe(other.own);
    expect(new KeyLimits(key(null)).own.isEmpty).toBe(true);
  });

  test("belong to one root, so that a shared store can count all of them in one place", () => {
    const all = { requests: 5, tokens: 5, audioSeconds: 5, characters: 5, concurrency: 5 };
    const { key } = world({ org: all, web: all, app: all });
    const { rates, concurrency } = new KeyLimits(key("app", all)).own;
    const ids = [...rates, ...concurrency].map(({ id }) => id);
    expect(ids).toHaveLength(20);
    expect(new Set(ids.map(rootOfLimit))).toEqual(new Set(["org"]));
    expect(new Set(ids.map(ownerOfLimit))).toEqual(new Set(["org>k1", "org>app", "org>web", "org>org"]));
    expect(rootOfLimit("plain requests")).toBe("plain");
  });

  test("belong to the new root when another group is put above the old one, also those of groups that stay as they are", () => {
    const group = (id: string, parent: string | null): Group => ({
      id,
      name: id,
      kind: parent === null ? "organisation" : "team",
      parent,
      limits: { ...unlimited, requests: 5 },
      frozen: false,
      defaults: { keys: unlimited, groups: unlimited },
    });
    const key = { ...defaultKey, id: "k1", name: "k1", group: "web", limits: { ...unlimited, requests: 5 } };
    const web = group("web", "acme");
    const roots = (...above: readonly Group[]): readonly string[] =>
      new KeyLimits(new GroupTree([web, ...above]).attached(key)!).own.rates.map(({ id }) => rootOfLimit(id));
    expect(roots(group("acme", null))).toEqual(["acme", "acme", "acme"]);
    expect(roots(group("acme", "corp"), group("corp", null))).toEqual(["corp", "corp", "corp", "corp"]);
    expect(roots(group("acme", null))).toEqual(["acme", "acme", "acme"]);
  });

  test("make a key without a budget of its own one whose calls are paid", () => {
    const { key } = world({ org: { budgets: [{ name: "all", models: null, operations: null, channels: null, nanos: 1, period: "day" }] } });
    expect([hasBudget(key("app")), hasBudget(key(null))]).toEqual([true, false]);
  });

  test("refuse a call without a price where the budget of a group says so", () => {
    const budget = { nanos: dollar, period: "month" } as const;
    const { limiter, key } = world({ org: { budget, unpriced: "allow" }, web: { budget } });
    expect(refusal(limiter.admit(key("web", { unpriced: "allow" }), asks("m", "a"), demand({ nanos: null })))).toStartWith(
      'The budget of the team web needs the price of the model "m", which is not known.',
    );
    grant(limiter.admit(key("ads"), asks("m", "a"), demand({ nanos: null })));
  });
});

describe("a budget with a selector", () => {
  const selected = { name: "eu", models: null, operations: null, channels: null, nanos: 10, period: "day" } as const;

  test("counts the calls that it names, and no others", () => {
    const { limiter, key, purses } = world({
      web: {
        budgets: [
          { ...selected, name: "large", models: ["gpt-5*", "o3"] },
          { ...selected, name: "speech", operations: ["speech"] },
        ],
      },
    });
    const one = key("app");
    grant(limiter.admit(one, asks("gpt-5-mini", "a"), demand({ nanos: 4 }))).settle(demand({ nanos: 3 }));
    grant(limiter.admit(one, asks("tiny", "b"), demand({ nanos: 40 }))).settle(demand({ nanos: 40 }));
    grant(limiter.admit(one, { ...asks("o3", "c"), operation: "speech" }, demand({ nanos: 2 }))).settle(demand({ nanos: 2 }));
    expect([purses.of("web #large"), purses.of("web #speech")]).toEqual([5, 2]);
    expect(refusal(limiter.admit(one, asks("o3", "d"), demand({ nanos: 6 })))).toContain("The budget of the team web for large, $0");
  });

  test("has money of its own, also where a rule for models is for one that is called like it", () => {
    const { limiter, key, purses } = world({
      web: {
        budgets: [{ ...selected, name: "images", operations: ["image"] }],
        models: ["#images", "##images"].map((pattern) => ({ ...unlimitedRates, pattern, budget: { nanos: 100, period: "day" } })),
      },
    });
    const web = key("web");
    grant(limiter.admit(web, { ...asks("m", "a"), operation: "image" }, demand({ nanos: 1 }))).settle(demand({ nanos: 1 }));
    grant(limiter.admit(web, asks("#images", "b"), demand({ nanos: 20 }))).settle(demand({ nanos: 20 }));
    grant(limiter.admit(web, asks("##images", "c"), demand({ nanos: 40 }))).settle(demand({ nanos: 40 }));
    expect([...purses.spent.values()]).toEqual([1, 20, 40]);
    expect([...purses.spent.keys()]).toEqual([
      budgetId("web", null, "images"),
      budgetId("web", "#images", null),
      budgetId("web", "##images", null),
    ]);
  });

  test("for channels holds what a call may cost, and gives it back where another channel served it", () => {
    const { limiter, key, purses } = world({ org: { budgets: [{ ...selected, channels: ["eu-*", "gdpr"] }] } });
    const call = (...channels: readonly (readonly [string, readonly string[]])[]): AskedCall => ({
      ...asks("m", "a"),
      route: routeOf(channels),
    });
    const both = call(["eu-1", []], ["us", []]);
    const first = grant(limiter.admit(key("web"), both, demand({ nanos: 6 })));
    expect(purses.of("org #eu")).toBe(6);
    expect(refusal(limiter.admit(key("web"), both, demand({ nanos: 6 })))).toContain("the organisation org for eu");
    first.settle(demand({ nanos: 5 }), { name: "us", tags: [] });
    expect(purses.of("org #eu")).toBe(0);
    grant(limiter.admit(key("web"), both, demand({ nanos: 6 }))).settle(demand({ nanos: 5 }), { name: "eu-1", tags: [] });
    grant(limiter.admit(key("web"), call(["main", ["gdpr"]]), demand({ nanos: 5 }))).settle(demand({ nanos: 5 }), {
      name: "main",
      tags: ["gdpr"],
    });
    expect(purses.of("org #eu")).toBe(10);
    grant(limiter.admit(key("web"), call(["us", []]), demand({ nanos: 60 }))).settle(demand({ nanos: 60 }), { name: "us", tags: [] });
    expect(purses.of("org #eu")).toBe(10);
  });
});

/** A route over channels of these names and tags: all that a budget looks at. */
function routeOf(channels: readonly (readonly [name: string, tags: readonly string[]])[]): Route {
  const candidates = channels.map(([name, tags]) => ({ deployment: { channel: { name, tags } as Channel } }));
  return { model: "m", tiers: [candidates], size: candidates.length } as unknown as Route;
}
