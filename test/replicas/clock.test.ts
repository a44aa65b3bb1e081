// Needs: alone, servers. A Redis that takes longer than 100 ms counts as lost, and its clocks differ by seconds.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { openDatabase } from "../../src/store/open.ts";
import { storeClock } from "../../src/store/store-clock.ts";
import { count, makeKey, masterKey, offer, startReplicas, tally, tallyAtOnce, timed } from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowed } from "../support/slowed.ts";
import { findFakeTime, wrongBy } from "../support/wrong-clock.ts";

setDefaultTimeout(60_000);

const wrongClock = findFakeTime();
const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const missing = remark(postgres, redis, wrongClock);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
});

describe.skipIf(missing !== "")(`F71: replicas whose clocks are wrong${missing}`, () => {
  test.each([
    ["+1d", "-2h", "Redis"],
    ["-1d", "+2h", "PostgreSQL alone"],
  ])("by %s and %s agree on limits, budgets of a day and expiry through %s, and their timers run as ever", async (one, other, through) => {
    const offsets = [one, other];
    await using replicas = await startReplicas({
      postgres: present(postgres),
      redis: through === "Redis" ? present(redis) : null,
      config: { prices: [{ model: "*", call: 0.01 }] },
      startOf: (at) => ({
        env: { SLUICE_MASTER_KEY: masterKey, ...wrongBy(offsets[at]!, present(wrongClock)) },
      }),
    });
    const gateways = replicas.all.map(({ gateway }) => gateway);
    // They are believed to be wrong indeed.
    const days = gateways.map(({ logs }) =>
      Math.round((Date.parse(String(logs.find(({ event }) => event === "listening")!["time"])) - Date.now()) / 3_600_000),
    );
    expect(days).toEqual(offsets.map((offset) => Number.parseInt(offset, 10) * (offset.endsWith("d") ? 24 : 1)));

    await replicas.acquainted();
    const rated = await replicas.key({ requests: 100 });
    const replies = await offer(gateways, rated, { clients: 3, forMs: 20_000, enough: (so) => count(so, 429) > 400 });
    expect(count(replies, 200)).toBeLessThanOrEqual(105);
    expect(count(replies, 200)).toBeGreaterThanOrEqual(95);

    const placed = await replicas.key({ concurrency: 4 });
    expect(await tallyAtOnce(gateways, placed, 12)).toEqual({ "200": 4, "429 concurrency_limit": 8 });

    const poor = await replicas.key({ budget: { nanos: 300_000_000, period: "day" } });
    const spent = [];
    for (const gateway of [...gateways, ...gateways]) {
      spent.push(...(await offer([gateway], poor, { clients: 6, forMs: 2_000, enough: (so) => count(so, 429) > 60 })));
    }
    expect(count(spent, 200)).toBeLessThanOrEqual(30);
    expect(count(spent, 200)).toBeGreaterThanOrEqual(25);

    const valid = await makeKey(replicas.store, {}, { expiresMs: Date.now() + 3_600_000 });
    const expired = await makeKey(replicas.store, {}, { expiresMs: Date.now() - 60_000 });
    const answers = async (key: typeof valid) => tally(await Promise.all(gateways.map((gateway) => timed(gateway, key))));
    expect(await answers(valid)).toEqual({ "200": 2 });
    expect(Object.keys(await answers(expired)).map((kind) => kind.slice(0, 3))).toEqual(["401"]);

    // No deadline of theirs rings at once.
    const patient = await replicas.key();
    const waited = await Promise.all(gateways.map((gateway) => timed(gateway, patient, { x_first_ms: 700 })));
    expect(tally(waited)).toEqual({ "200": 2 });
    for (const { tookMs } of waited) expect(tookMs).toBeLessThan(slowed(1_500));
  });
});

describe.skipIf(remark(postgres) !== "")(`the clock of a store${remark(postgres)}`, () => {
  test("is PostgreSQL's, whatever the machine says, and runs on while that is away", async () => {
    const database = await openDatabase({ store: await present(postgres).freshDatabase(), dataDir: "" });
    let wrongMs = 86_400_000;
    const clock = storeClock(database, { nowMs: () => performance.now(), wallMs: () => Date.now() + wrongMs });
    const wrong = () => Math.abs(clock.wallMs() - Date.now());
    expect(wrong()).toBeGreaterThan(86_000_000);
    await clock.sync();
    expect(wrong()).toBeLessThan(slowed(2_000));
    wrongMs = -7_200_000;
    expect(wrong()).toBeLessThan(slowed(2_000));
    await database.close();
    await clock.sync();
    expect(wrong()).toBeLessThan(slowed(2_000));
  });
});
