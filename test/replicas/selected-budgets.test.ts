// Needs: alone, servers. Calls that wait for Redis for longer than 100 ms are counted without it, and both replicas are kept busy.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { BudgetSelector } from "../../src/limits/limits.ts";
import { groupSpending } from "../../src/manage/key-spending.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { eventually } from "../support/eventually.ts";
import { dollars } from "../support/keys.ts";
import { count, makeCompany, offer, startReplicas, tally, type MadeKey, type Replicas, type TimedReply } from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";

setDefaultTimeout(60_000);

const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
});

const callNanos = dollars(0.01);
const affordable = 50;

describe.skipIf(remark(postgres, redis) !== "")(`a budget with a selector, over two replicas${remark(postgres, redis)}`, () => {
  let replicas: Replicas;

  beforeAll(async () => {
    replicas = await startReplicas({
      postgres: present(postgres),
      redis: present(redis),
      channels: {
        main: { models: ["plain", "large", "shared"] },
        rack: { models: ["racked", "shared"], tags: ["gpu"] },
      },
      config: { prices: [{ model: "*", call: 0.01 }] },
    });
    await replicas.acquainted();
    // The first statements of a replica take it longest.
    await ask(await company("first", { models: ["large"] }), "large", 8, (so) => count(so, 200) > 10);
  });

  afterAll(async () => {
    await replicas?.[Symbol.asyncDispose]();
  });

  /** The keys of two teams of an organisation that has such a budget for fifty calls. */
  function company(name: string, selector: Partial<BudgetSelector>): Promise<readonly MadeKey[]> {
    const everything: BudgetSelector = { models: null, operations: null, channels: null };
    const budget = { ...everything, ...selector, name: "some", nanos: affordable * callNanos, period: "total" } as const;
    return makeCompany(replicas.store, name, { budgets: [budget] });
  }

  async function ask(
    keys: readonly MadeKey[],
    model: string,
    clients: number,
    enough: (so: readonly TimedReply[]) => boolean,
  ): Promise<readonly TimedReply[]> {
    const gateways = replicas.all.map(({ gateway }) => gateway);
    return (await Promise.all(keys.map((key) => offer(gateways, key, { clients, forMs: 20_000, enough, body: { model } })))).flat();
  }

  /** The calls of a company that were answered, once the store has the receipts of so many. */
  async function receiptsOf(name: string, model: string, calls: number): Promise<readonly Receipt[]> {
    const query = { keyId: null, model, channel: null, state: "complete", sinceMs: null, untilMs: null, before: null } as const;
    let found: readonly Receipt[] = [];
    const arrived = async (): Promise<boolean> => {
      found = await replicas.store.storage.receipts.list({ ...query, groupId: `grp_${name}`, limit: 1_000 });
      return found.length >= calls;
    };
    await eventually(`${calls} receipts for ${model}`, arrived);
    return found;
  }

  /** Without the calls that no money was to be had for because PostgreSQL took too long: on a busy machine that says nothing of the rule. */
  function inTime(replies: readonly TimedReply[]): readonly TimedReply[] {
    return replies.filter(({ error }) => error?.code !== "store_unavailable");
  }

  function billed(receipts: readonly Receipt[]): number {
    return receipts.reduce((sum, { billedNanos }) => sum + (billedNanos ?? Number.NaN), 0);
  }

  /** As the admin API tells it. */
  async function toldNanos(name: string): Promise<readonly number[]> {
    const group = await replicas.store.storage.groups.get(`grp_${name}`);
    const spending = await groupSpending({ reports: replicas.store.storage, wallMs: Date.now }, group!);
    return spending.map(({ spentNanos }) => spentNanos);
  }

  function expectRefusalsNaming(name: string, replies: readonly TimedReply[]): void {
    const refused = replies.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    const named = `The budget of the organisation ${name} for some, $0.5 in all, `;
    expect(refused.filter(({ error }) => error?.message.startsWith(named) !== true)).toEqual([]);
  }

  test.each([
    { by: "model", name: "models", selector: { models: ["large*"] }, model: "large", other: "racked" },
    { by: "channel tag", name: "tags", selector: { channels: ["gpu"] }, model: "racked", other: "large" },
  ])("by $by, is spent to the last call and not beyond, whichever team asks, and no other call is refused", async (given) => {
    const { name, selector, model, other } = given;
    const keys = await company(name, selector);
    let over = false;
    const asked = ask(keys, model, 8, (so) => count(so, 429) > 60).finally(() => (over = true));
    const [replies, others] = await Promise.all([asked, ask(keys, other, 2, (so) => over && so.length > affordable)]);

    expect(tally(inTime(replies))).toEqual({ "200": affordable, "429 insufficient_quota": inTime(replies).length - affordable });
    expectRefusalsNaming(name, replies);
    expect(others.length).toBeGreaterThan(2 * affordable);
    expect(tally(others)).toEqual({ "200": others.length });
    expect(billed(await receiptsOf(name, model, count(replies, 200)))).toBe(affordable * callNanos);
    expect(await toldNanos(name)).toEqual([affordable * callNanos]);
  });

  test("by channel tag, is not overspent by calls that another channel may answer, and pays for none that it answered", async () => {
    const keys = await company("shared", { channels: ["gpu"] });
    const shared = await ask(keys, "shared", 8, (so) => count(so, 429) > 30);
    // What was held for calls that the other channel answered can be spent.
    const racked = await ask(keys, "racked", 8, (so) => count(so, 429) > 100);

    const replies = [...shared, ...racked];
    expect(tally(inTime(replies))).toEqual({ "200": count(replies, 200), "429 insufficient_quota": count(replies, 429) });
    expectRefusalsNaming("shared", replies);
    const answeredBy = (channel: string): number => replies.filter((reply) => reply.channel === channel).length;
    expect(answeredBy("main")).toBeGreaterThan(0);
    expect(answeredBy("rack")).toBe(affordable);
    const receipts = [
      ...(await receiptsOf("shared", "shared", count(shared, 200))),
      ...(await receiptsOf("shared", "racked", count(racked, 200))),
    ];
    expect(billed(receipts.filter(({ channel }) => channel === "rack"))).toBe(affordable * callNanos);
    expect(billed(receipts)).toBe(count(replies, 200) * callNanos);
    expect(await toldNanos("shared")).toEqual([affordable * callNanos]);
  });
});
