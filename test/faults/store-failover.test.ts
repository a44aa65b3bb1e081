// Needs: quiet, servers, long, slow. It waits for an outage of twenty seconds; replicas/store.test.ts proves the same of shorter ones, and of every kind.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { bystander } from "../support/bystander.ts";
import { eventually } from "../support/eventually.ts";
import { forMs, paced } from "../support/paced.ts";
import { count, degraded, expectNoLater, quantile, startReplicas, tally, timed, type MadeKey, type Replicas } from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";

setDefaultTimeout(90_000);

const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const missing = remark(postgres, redis);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
});

const outageMs = 20_000;
const nanosPerCall = 10_000_000;

/** What the store says that a key's calls were, and cost. */
async function summed({ store }: Replicas, { id }: MadeKey): Promise<{ readonly calls: number; readonly nanos: number }> {
  const query = { by: [], sinceMs: null, untilMs: null, keyId: id, model: null, channel: null };
  const [row] = await store.storage.receipts.usage(query);
  return { calls: row?.calls ?? 0, nanos: row?.nanos ?? 0 };
}

describe.skipIf(missing !== "")(`F57: a failover of PostgreSQL that takes 20 s${missing}`, () => {
  test("costs known keys nothing; afterwards every call is in the sums once, no budget is overspent, and strangers are served", async () => {
    const server = present(postgres);
    await using replicas = await startReplicas({
      postgres: server,
      redis: present(redis),
      config: { prices: [{ model: "*", call: nanosPerCall / 1e9 }] },
    });
    await using beside = await bystander(replicas);
    const gateways = replicas.all.map(({ gateway }) => gateway);
    const [known, poor, stranger] = [
      await replicas.key(),
      await replicas.key({ budget: { nanos: 100 * nanosPerCall, period: "total" } }),
      await replicas.key(),
    ];
    const quiet = await paced(gateways, known, { perSecond: 40, until: forMs(2_000) });
    expect(tally(quiet)).toEqual({ "200": quiet.length });

    let over = false;
    const until = (): boolean => over;
    const loads = [
      paced(gateways, known, { perSecond: 40, until }),
      paced(gateways, poor, { perSecond: 12, until }),
      paced([beside.gateway], beside.key, { perSecond: 20, until }),
    ];
    await Bun.sleep(1_000);
    await server.kill9();
    const killedMs = performance.now();
    for (const gateway of gateways) expect((await timed(gateway, stranger)).error?.code).toBe("store_unavailable");
    for (const gateway of gateways) {
      await eventually("it says what is degraded", async () => (await degraded(gateway)).includes("postgres"));
    }
    await Bun.sleep(outageMs - (performance.now() - killedMs));
    const restartedMs = performance.now();
    await server.start();
    for (const gateway of gateways) {
      await eventually("nothing is degraded", async () => (await degraded(gateway)).length === 0, 20_000);
      expect((await timed(gateway, stranger)).status).toBe(200);
    }
    // For a while yet, so that what was spent before the outage and during it is asked for again.
    await Bun.sleep(1_500);
    over = true;
    const [during = [], spending = [], unaffected = []] = await Promise.all(loads);

    expect(tally(during)).toEqual({ "200": during.length });
    expect(during.filter(({ atMs }) => atMs > killedMs && atMs < restartedMs).length).toBeGreaterThan(400);
    expectNoLater(during, Math.max(quantile(quiet, 0.99), quantile(unaffected, 0.99)));
    expect(Object.keys(tally(spending)).filter((kind) => !/^(200|503 store_unavailable|429 insufficient_quota)$/.test(kind))).toEqual([]);

    const paid = count(spending, 200);
    expect(paid).toBeLessThanOrEqual(100);
    expect(paid).toBeGreaterThan(10);
    for (const [key, calls] of [
      [known, quiet.length + during.length],
      [poor, paid],
      [stranger, 2],
    ] as const) {
      await eventually("all calls are in the sums", async () => (await summed(replicas, key)).calls >= calls, 15_000).catch(() => {});
      expect(await summed(replicas, key)).toEqual({ calls, nanos: calls * nanosPerCall });
    }
  });
});
