// Needs: alone, servers. A Redis that takes longer than 100 ms counts as lost, and its clocks differ by seconds.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "../../src/app/durable.ts";
import { openDatabase } from "../../src/store/open.ts";
import { storeClock } from "../../src/store/store-clock.ts";
import { startChaos } from "../support/chaos.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { openKeys } from "../support/keys.ts";
import { mostInAMinute, paced } from "../support/paced.ts";
import {
  callsOf,
  count,
  makeKey,
  masterKey,
  offer,
  startReplicas,
  tally,
  tallyAtOnce,
  timed,
  type TimedReply,
} from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowed } from "../support/slowed.ts";
import { findFakeTime, SettableClock, wrongBy } from "../support/wrong-clock.ts";

setDefaultTimeout(120_000);

const wrongClock = findFakeTime();
const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const missing = remark(postgres, redis, wrongClock);
const folder = mkdtempSync(join(tmpdir(), "sluice-clock-"));
let clocks = 0;

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
  rmSync(folder, { recursive: true, force: true });
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

interface Jumping extends AsyncDisposable {
  readonly gateways: readonly Gateway[];
  readonly store: Store;
  /** How long a key is valid that no jump ends: replicas ask PostgreSQL for the date. */
  readonly validMs: number;
  /** The one whose clock jumped, as it is when that is over. */
  readonly later: () => Promise<Gateway>;
}

const callNanos = 10_000_000;
const budgetCalls = 40;
const jumpingConfig = { server: { linger: "0ms" }, prices: [{ model: "*", call: callNanos / 1e9 }] };

async function onSqlite(environment: Readonly<Record<string, string>>): Promise<Jumping> {
  const upstream = await startChaos();
  const channels = [{ name: "a", base_url: upstream.url, models: "*" }];
  const options = { config: { ...jumpingConfig, channels }, env: environment, directory: mkdtempSync(join(folder, "gateway-")) };
  let gateway = await startGateway(options);
  const { store } = await openKeys(gateway);
  return {
    gateways: [gateway],
    store,
    validMs: 48 * 3_600_000,
    // Money that was leased before the jump is held for another minute, unless its process ends.
    later: async () => {
      expect(await gateway.stop()).toBe(0);
      return (gateway = await startGateway(options));
    },
    [Symbol.asyncDispose]: async () => {
      await store.database.close();
      await gateway.kill();
      await upstream.close();
    },
  };
}

/** Two, of which one has a clock that jumps. */
async function onServers(environment: Readonly<Record<string, string>>): Promise<Jumping> {
  const replicas = await startReplicas({
    postgres: present(postgres),
    redis: present(redis),
    config: jumpingConfig,
    startOf: (at) => ({ env: { SLUICE_MASTER_KEY: masterKey, ...(at === 0 ? environment : {}) } }),
  });
  await replicas.acquainted();
  const gateways = replicas.all.map(({ gateway }) => gateway);
  return {
    gateways,
    store: replicas.store,
    validMs: 3_600_000,
    later: async () => gateways[0]!,
    [Symbol.asyncDispose]: async () => replicas[Symbol.asyncDispose](),
  };
}

describe.each([
  ["a gateway with SQLite", onSqlite, remark(wrongClock)],
  ["one of two replicas", onServers, missing],
] as const)("%s whose clock jumps by 25 hours and back while it is asked", (_, start, lacks) => {
  test.skipIf(lacks !== "")(
    `answers every call, keeps limits, spends a budget to the last call, and stores every receipt${lacks}`,
    async () => {
      const clock = new SettableClock(join(folder, `${++clocks}`));
      await using running = await start(clock.environment(present(wrongClock)));
      const { gateways, store } = running;
      const [free, rated, poor] = [
        await makeKey(store, {}, { expiresMs: Date.now() + running.validMs }),
        await makeKey(store, { requests: 100 }),
        await makeKey(store, { budget: { nanos: budgetCalls * callNanos, period: "total" } }),
      ];
      let over = false;
      let answered = 0;
      let limited = 0;
      const until = (): boolean => over;
      const loads = [
        paced(gateways, free, { perSecond: 10, until, answered: () => (answered += 1) }),
        paced(gateways, rated, { perSecond: 15, until, answered: ({ status }) => (limited += status === 429 ? 1 : 0) }),
        paced(gateways, poor, { perSecond: 4, until }),
      ];
      const goesOn = (): Promise<void> => {
        const before = answered;
        return eventually("calls are answered", () => answered >= before + 20, 30_000);
      };
      await goesOn();
      clock.set("+25h");
      await goesOn();
      const dayMs = 24 * 3_600_000;
      // It is believed to be wrong indeed.
      expect(gateways[0]!.accessLines().some(({ time }) => Date.parse(String(time)) - Date.now() > dayMs)).toBe(true);
      clock.set("+0");
      await goesOn();
      await eventually("the limit of a minute was reached", () => limited > 10, 60_000);
      await goesOn();
      over = true;
      const [steady = [], ofRated = [], ofPoor = []] = await Promise.all(loads);
      const last = await running.later();
      const rest: TimedReply[] = [];
      await eventually("the budget is spent to the last call", async () => {
        rest.push(await timed(last, poor));
        return count([...ofPoor, ...rest], 200) >= budgetCalls;
      });
      rest.push(await timed(last, poor));
      const spending = [...ofPoor, ...rest];

      expect(tally(steady)).toEqual({ "200": steady.length });
      expect(Object.keys(tally(ofRated)).toSorted()).toEqual(["200", "429 rate_limit_exceeded"]);
      expect(mostInAMinute(ofRated)).toBeWithin(95, 106);
      expect(Object.keys(tally(spending)).toSorted()).toEqual(["200", "429 insufficient_quota"]);
      expect(count(spending, 200)).toBe(budgetCalls);
      for (const [key, calls] of [
        [free, steady.length],
        [rated, count(ofRated, 200)],
        [poor, budgetCalls],
      ] as const) {
        await eventually("every call is in the sums", async () => (await callsOf(store, key.id)) >= calls, 30_000);
        expect(await callsOf(store, key.id)).toBe(calls);
      }
      const lost: (string | null)[] = [];
      for (const { status, requestId } of [...steady, ...ofRated, ...spending]) {
        if (status === 200 && (await store.storage.receipts.find(requestId ?? "")) === null) lost.push(requestId);
      }
      expect(lost).toEqual([]);
    },
  );
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
