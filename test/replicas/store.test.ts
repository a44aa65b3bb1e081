// Needs: quiet, servers, long. It mostly waits for a PostgreSQL that is lost; its calls are paced, and compared with others beside them.
import { SQL } from "bun";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { sql } from "../../src/store/sql.ts";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { valueOf } from "../support/exposition.ts";
import { startFaultyWire, type FaultyWire } from "../support/faulty-wire.ts";
import { forMs, paced } from "../support/paced.ts";
import { bystander, reachedOver, type Bystander } from "../support/bystander.ts";
import { rawRequest } from "../support/raw-request.ts";
import {
  ben,
  count,
  degraded,
  exposed,
  offer,
  expectNoLater,
  openMetrics,
  quantile,
  startReplicas,
  tally,
  timed,
  type MadeKey,
  type Replicas,
} from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres, type TestPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const connectionsMax = 40;
const postgres = await startPostgres({ fsync: false, settings: { max_connections: String(connectionsMax) } });
const redis = await startRedis();
const missing = remark(postgres, redis);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
});

/** How PostgreSQL is lost, and how it comes back. */
interface Loss {
  readonly name: string;
  readonly begin: (replicas: Replicas, server: TestPostgres, wire: FaultyWire) => void | Promise<void>;
  readonly end: (replicas: Replicas, server: TestPostgres, wire: FaultyWire) => void | Promise<void>;
}

const losses: readonly Loss[] = [
  {
    name: "refuses connections",
    begin: ({ all }) => all.forEach(({ toPostgres }) => toPostgres.cut()),
    end: ({ all }) => all.forEach(({ toPostgres }) => toPostgres.restore()),
  },
  { name: "is frozen", begin: (_, server) => server.pause(), end: (_, server) => server.resume() },
  {
    name: "answers after 3 s",
    begin: ({ all }) => all.forEach(({ toPostgres }) => toPostgres.delay(1_500)),
    end: ({ all }) => all.forEach(({ toPostgres }) => toPostgres.restore()),
  },
  {
    name: "is killed after it wrote what nobody heard that it wrote, and in the middle of the rest",
    begin: async (_, server, wire) => {
      wire.fault = { kind: "hushed", from: "COMMIT" };
      await eventually("something is committed, and nobody hears of it", () => wire.faults >= 2);
      await server.kill9();
    },
    end: async (_, server, wire) => {
      wire.fault = { kind: "none" };
      await server.start();
    },
  },
];

/** Few enough that the machine is not full, and that calls take what the gateway takes. */
const perSecond = 40;

describe.skipIf(missing !== "")(`two replicas whose PostgreSQL${missing}`, () => {
  let replicas: Replicas;
  let wire: FaultyWire;
  let beside: Bystander;

  beforeAll(async () => {
    wire = await startFaultyWire(present(postgres));
    replicas = await startReplicas({
      postgres: reachedOver(present(postgres), wire),
      redis: present(redis),
      config: { prices: [{ model: "*", call: 0.01 }], ...openMetrics },
    });
    beside = await bystander(replicas);
  });

  afterAll(async () => {
    await beside?.[Symbol.asyncDispose]();
    await replicas?.[Symbol.asyncDispose]();
    await wire?.close();
  });

  const gateways = () => replicas.all.map(({ gateway }) => gateway);

  /** The sums are those of the calls that were answered, and stay so. */
  async function expectExact(key: MadeKey, calls: number): Promise<void> {
    await eventually(`all ${calls} calls are in the sums`, async () => (await replicas.calls(key.id)) >= calls, 15_000).catch(() => {});
    expect(await replicas.calls(key.id)).toBe(calls);
  }

  /** What its metrics say of the store, and of the receipts that are not in it yet. */
  async function shownOf(gateway: { readonly url: string }) {
    const families = await exposed(gateway);
    return {
      up: valueOf(families, "sluice_store_up", { kind: "postgres" }),
      receipts: valueOf(families, "sluice_journal_waiting_receipts"),
      oldest: valueOf(families, "sluice_journal_oldest_receipt_seconds"),
    };
  }

  async function expectRecovery(key: MadeKey): Promise<void> {
    for (const gateway of gateways()) {
      await eventually("nothing is degraded", async () => (await degraded(gateway)).length === 0, 15_000);
      expect((await chat(gateway, {}, { key: key.token })).status).toBe(200);
    }
  }

  test.each(losses)("F57: $name: known keys are served, others get 503, and after it the sums are exact", async ({ begin, end }) => {
    const server = present(postgres);
    const [known, unknown, poor] = [
      await replicas.key(),
      await replicas.key(),
      await replicas.key({ budget: { nanos: 400_000_000, period: "total" } }),
    ];
    const before = await paced(gateways(), known, { perSecond, until: forMs(1_500) });
    expect(count(before, 200)).toBe(before.length);
    const rich = await offer(gateways(), poor, { clients: 1, forMs: 5_000, enough: (so) => so.length >= 4 });

    const until = forMs(4_000);
    const load = paced(gateways(), known, { perSecond, until });
    const unaffected = paced([beside.gateway], beside.key, { perSecond, until });
    await begin(replicas, server, wire);
    const strangers = await Promise.all(gateways().map((gateway) => timed(gateway, unknown)));
    expect(tally(strangers)).toEqual({ "503 store_unavailable": 2 });
    expect(Math.max(...strangers.map(({ tookMs }) => tookMs))).toBeLessThan(slowed(3_500));
    for (const gateway of gateways()) {
      await eventually("it says what is degraded", async () => (await degraded(gateway)).includes("postgres"), 5_000);
      expect((await rawRequest(`${gateway.url}/healthz`)).text).toBe("ok\n");
      await eventually("its metrics say so, and that receipts wait", async () => {
        const { up, receipts, oldest } = await shownOf(gateway);
        return up === 0 && receipts > 0 && oldest > 0;
      });
    }
    const spending = await offer(gateways(), poor, { clients: 1, forMs: 1_000, enough: (so) => so.length > 60 });
    expect(Object.keys(tally(spending)).filter((kind) => !/^(200|503 store_unavailable|429 insufficient_quota)$/.test(kind))).toEqual([]);
    const during = await load;
    expect(tally(during)).toEqual({ "200": during.length });
    expect(during.length).toBeGreaterThan(50);
    expectNoLater(during, Math.max(quantile(before, 0.99), quantile(await unaffected, 0.99)));

    await end(replicas, server, wire);
    await expectRecovery(unknown);
    await expectExact(known, before.length + during.length);
    const after = await offer(gateways(), poor, { clients: 8, forMs: 3_000, enough: (so) => count(so, 429) > 100 });
    expect(count([...rich, ...spending, ...after], 200)).toBeLessThanOrEqual(40);
    await expectExact(poor, count([...rich, ...spending, ...after], 200));
    await expectExact(unknown, 2);
    const whole = { up: 1, receipts: 0, oldest: 0 };
    for (const gateway of gateways())
      await eventually("its metrics say that nothing waits", async () => Bun.deepEquals(await shownOf(gateway), whole));
  });

  test("F57: is lost: known keys are served that were changed a moment ago, alone or with thousands of others", async () => {
    const known = await replicas.key({ requests: 10_000 });
    // What changes after it is heard of no sooner; so nobody has to come with the key itself to find out.
    const witness = await replicas.key({ requests: 10_000 });
    const limits = async ({ token }: MadeKey): Promise<readonly (string | null)[]> =>
      Promise.all(
        gateways().map(async (gateway) => {
          const reply = await chat(gateway, {}, { key: token });
          return reply.status === 200 ? reply.response.header("x-ratelimit-limit-requests") : String(reply.status);
        }),
      );
    const { keys } = replicas.store.storage;
    const { limits: before } = (await keys.get(known.id))!;
    const changes = [
      async () => {
        for (const { id } of [known, witness]) await keys.change(id, { limits: { ...before, requests: 10_001 } }, ben);
      },
      () =>
        replicas.store.database.transaction(async (inside) => {
          await inside.run(sql`update revision set value = value + 1`);
          await inside.run(sql`insert into keys (id, name, scopes, limits, splits, created_ms, revision)
            select 'one of many ' || n, 'one of many ' || n, scopes, limits, splits, created_ms, value
            from keys, revision, generate_series(1, 3000) n where keys.id = ${known.id}`);
          await inside.run(sql`update keys set limits = replace(limits, '10001', '10002'), revision = value
            from revision where keys.id in (${known.id}, ${witness.id})`);
        }),
    ];
    for (const key of [known, witness]) expect(await limits(key)).toEqual(["10000", "10000"]);
    for (const [at, change] of changes.entries()) {
      const now = String(10_001 + at);
      await change();
      await eventually("both replicas know it", async () => (await limits(witness)).every((limit) => limit === now));
      for (const { toPostgres } of replicas.all) toPostgres.cut();
      expect(await limits(known)).toEqual([now, now]);
      for (const { toPostgres } of replicas.all) toPostgres.restore();
      for (const gateway of gateways()) await eventually("nothing is degraded", async () => (await degraded(gateway)).length === 0, 15_000);
    }
  });

  test("F58: has no place for one more connection: calls go on, and so does everything once there is one", async () => {
    const server = present(postgres);
    const [known, unknown] = [await replicas.key(), await replicas.key()];
    const before = await Promise.all(gateways().map((gateway) => chat(gateway, {}, { key: known.token })));
    expect(tally(before)).toEqual({ "200": 2 });
    for (const { toPostgres } of replicas.all) toPostgres.cut();
    const hogs: SQL[] = [];
    for (let at = 0; at < connectionsMax; at += 1) {
      const hog = new SQL({ url: server.urlOf("postgres"), max: 1 });
      hogs.push(hog);
      if (!(await hog`select 1`.then(() => true).catch(() => false))) break;
    }
    for (const { toPostgres } of replicas.all) toPostgres.restore();
    const during = await offer(gateways(), known, { clients: 2, forMs: 500 });
    expect(tally(during)).toEqual({ "200": during.length });
    const strangers = await Promise.all(gateways().map((gateway) => timed(gateway, unknown)));
    expect(tally(strangers)).toEqual({ "503 store_unavailable": 2 });
    expect(Math.max(...strangers.map(({ tookMs }) => tookMs))).toBeLessThan(slowed(3_500));
    await Promise.all(hogs.map((hog) => hog.close({ timeout: 0 }).catch(() => {})));
    await expectRecovery(unknown);
    await expectExact(known, before.length + during.length);
  });
});

describe.skipIf(missing !== "")(`two replicas that share limits through PostgreSQL alone${missing}`, () => {
  test("F57: keep to their parts of a limit while it is frozen, without anybody waiting long", async () => {
    const server = present(postgres);
    await using replicas = await startReplicas({ postgres: server, redis: null });
    const gateways = replicas.all.map(({ gateway }) => gateway);
    const key = await replicas.key({ requests: 200 });
    const warm = await Promise.all(gateways.map((gateway) => timed(gateway, key)));
    expect(tally(warm)).toEqual({ "200": 2 });
    // Each has to have seen the other, or it would take all for its part.
    await replicas.acquainted();
    expect(tally(await Promise.all(gateways.map((gateway) => timed(gateway, key))))).toEqual({ "200": 2 });
    await server.pause();
    const during = await offer(gateways, key, { clients: 3, forMs: 4_000, restMs: 10 });
    server.resume();
    expect(count(during, 200) + count(during, 429)).toBe(during.length);
    expect(count(during, 200)).toBeGreaterThanOrEqual(150);
    expect(count(during, 200)).toBeLessThanOrEqual(240);
    expect(during.filter(({ tookMs }) => tookMs > slowed(250)).length).toBeLessThanOrEqual(2 * 8);
    expect(quantile(during, 1)).toBeLessThan(slowed(2_500));
  });
});
