// Needs: quiet, servers, long. Two gateways are asked a few times a second while their servers are replaced.
import { RedisClient, SQL } from "bun";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { StorageError } from "../../src/gateway/storage.ts";
import { PostgresDatabase } from "../../src/store/postgres/postgres.ts";
import { sql } from "../../src/store/sql.ts";
import type { ChatCall } from "../support/chat.ts";
import { OpenStreams } from "../support/open-streams.ts";
import { eventually } from "../support/eventually.ts";
import { newGroup } from "../support/groups.ts";
import { mostInAMinute, paced } from "../support/paced.ts";
import {
  ben,
  count,
  degraded,
  masterKey,
  opened,
  startReplicas,
  tally,
  tallyAtOnce,
  timed,
  type MadeKey,
  type Replicas,
} from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgresPair } from "../support/servers/postgres.ts";
import { startRedis, type TestRedis } from "../support/servers/redis.ts";
import { findFakeTime, wrongBy } from "../support/wrong-clock.ts";

setDefaultTimeout(180_000);

const pair = await startPostgresPair({ fsync: false });
const redis = await startRedis();
const replica = await startRedis();
const missing =
  remark(pair, redis, replica) || (present(redis).controlled ? "" : " (skipped: the server of REDIS_URL is not ours to stop)");
const fakeTime = findFakeTime();
const clocks = "skipped" in fakeTime ? ` (their clocks are right: ${fakeTime.skipped})` : ", one with a clock an hour ahead";

afterAll(async () => {
  if (!("skipped" in pair)) await Promise.all([pair.primary.stop(), pair.standby.stop()]);
  for (const server of [redis, replica]) if (!("skipped" in server)) await server.stop();
});

const nanosPerCall = 10_000_000;
const budgetCalls = 60;
const atOnce = 10;
const passingTokens = 20;

test.skipIf("skipped" in fakeTime)(`a clock can be an hour ahead of the others${remark(fakeTime)}`, () => {
  const tell = [process.execPath, "-e", "console.log(Date.now())"];
  const { stdout } = Bun.spawnSync(tell, { env: { ...process.env, ...wrongBy("+1h", present(fakeTime)) } });
  expect(Number(stdout.toString()) - Date.now()).toBeWithin(3_000_000, 3_600_001);
});

/** What the store says that a key's calls were, and cost. */
async function summed({ store }: Replicas, { id }: MadeKey): Promise<{ readonly calls: number; readonly nanos: number }> {
  const query = { by: [], sinceMs: null, untilMs: null, keyId: id, model: null, channel: null };
  const [row] = await store.storage.receipts.usage(query);
  return { calls: row?.calls ?? 0, nanos: row?.nanos ?? 0 };
}

function both(first: { readonly port: number }, second: { readonly port: number }, database: string): PostgresDatabase {
  return new PostgresDatabase(`postgres://postgres@127.0.0.1:${first.port},127.0.0.1:${second.port}/${database}`);
}

describe.skipIf(remark(pair) !== "")(`an address that names two servers${remark(pair)}`, () => {
  test("leads to the one that takes writes, whichever comes first, and away from one that no longer does", async () => {
    const { primary, standby } = present(pair);
    const name = new URL(await primary.freshDatabase()).pathname.slice(1);
    const settings = new SQL({ url: primary.urlOf(name), max: 1 });
    const database = both(standby, primary, name);
    try {
      await database.run(sql`create table written (n bigint)`);
      expect(await database.run(sql`insert into written values (1)`)).toBe(1);
      // Its open connections are read-only from now on, as after a failover that keeps them.
      await settings.unsafe("alter system set default_transaction_read_only = on");
      await settings.unsafe("select pg_reload_conf()");
      await eventually("it takes no writes", async () => {
        const error = await database.run(sql`insert into written values (2)`).catch((reason: unknown) => reason);
        return error instanceof StorageError && error.kind === "unavailable" && error.message.includes("None of the store's 2 servers");
      });
      await settings.unsafe("set default_transaction_read_only = off");
      await settings.unsafe("alter system reset default_transaction_read_only");
      await settings.unsafe("select pg_reload_conf()");
      await eventually("it takes writes", async () => (await database.run(sql`insert into written values (3)`).catch(() => 0)) === 1);
      expect(await database.all<object>(sql`select n from written where n <> 2 order by n`)).toEqual([{ n: 1 }, { n: 3 }]);
    } finally {
      await database.close();
      await settings.close({ timeout: 0 });
    }
  });

  test("leads past a server that takes connections and never answers", async () => {
    const { primary } = present(pair);
    const hole = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const database = both(hole, primary, "postgres");
    try {
      expect(await database.all<object>(sql`select 1 as n`)).toEqual([{ n: 1 }]);
    } finally {
      await database.close();
      hole.stop(true);
    }
  });

  test.each([
    ["postgres://a,/x", "is not a PostgreSQL URL"],
    ["postgres://a,b/x?target_session_attrs=any", "allows a standby"],
  ])("%s is refused in words", (address, words) => {
    expect(() => new PostgresDatabase(address)).toThrow(words);
  });
});

describe.skipIf(missing !== "")(
  `two replicas${clocks}, whose Redis and then PostgreSQL is lost and replaced by its standby${missing}`,
  () => {
    test("serve known keys all the time, count every call once, keep limits and budgets, and then know strangers again", async () => {
      const { primary, standby } = present(pair);
      const [first, second] = [present(redis), present(replica)];
      await asked(second, "REPLICAOF", first.host, String(first.port));
      await using replicas = await startReplicas({
        postgres: primary,
        standby,
        redis: first,
        state: `redis://${first.host}:${first.port},${second.host}:${second.port}`,
        config: { prices: [{ model: "*", call: nanosPerCall / 1e9 }] },
        startOf: (at) => ({
          env: { SLUICE_MASTER_KEY: masterKey, ...(at === 1 && !("skipped" in fakeTime) ? wrongBy("+1h", fakeTime) : {}) },
        }),
      });
      await replicas.acquainted();
      const gateways = replicas.all.map(({ gateway }) => gateway);
      const beganMs = Date.now();
      // What the whole organisation may spend is spent by a key of a team below it.
      const { groups, keys } = replicas.store.storage;
      await groups.create(
        "grp_org",
        newGroup("org", { limits: { budget: { nanos: budgetCalls * nanosPerCall, period: "total" } } }),
        [],
        ben,
      );
      await groups.create("grp_team", newGroup("team", { parent: "grp_org" }), [], ben);
      const [known, poor, grouped, rated, stranger, placed] = [
        await replicas.key(),
        await replicas.key({ budget: { nanos: budgetCalls * nanosPerCall, period: "total" } }),
        await replicas.key(),
        await replicas.key({ requests: 60 }),
        await replicas.key(),
        await replicas.key({ concurrency: atOnce }),
      ];
      await keys.change(grouped.id, { group: "grp_team" }, ben);
      // As many streams as a key may have, which last until their clients leave, and others that try to join them all the time.
      using openStreams = new OpenStreams(() => replicas.attempts, { held: Infinity, passing: passingTokens });
      const held: ChatCall[] = [];
      await eventually("all places are taken", async () => {
        const body = { model: "held", x_tokens: 100_000, x_pace_ms: 100 };
        const stream = await opened(gateways[held.length % gateways.length]!, placed, body, { timeoutMs: 600_000 });
        await stream.untilHead(60_000);
        if (stream.response.status === 200) held.push(stream);
        return held.length === atOnce;
      });
      let over = false;
      let answered = 0;
      const paidOf = { poor: 0, grouped: 0 };
      const until = (): boolean => over;
      const loads = [
        paced(gateways, known, { perSecond: 12, until, answered: () => (answered += 1) }),
        paced(gateways, poor, { perSecond: 4, until, answered: ({ status }) => (paidOf.poor += status === 200 ? 1 : 0) }),
        paced(gateways, grouped, { perSecond: 4, until, answered: ({ status }) => (paidOf.grouped += status === 200 ? 1 : 0) }),
        paced(gateways, rated, { perSecond: 6, until }),
        paced(gateways, placed, {
          perSecond: 4,
          until,
          body: { model: "passing", x_tokens: passingTokens, x_pace_ms: 50 },
          options: { stream: true },
        }),
      ];
      const goesOn = (): Promise<void> => {
        const before = answered;
        return eventually("calls are answered", () => answered >= before + 12, 30_000);
      };
      const whole = async (): Promise<void> => {
        for (const gateway of gateways) {
          await eventually("nothing is degraded", async () => (await degraded(gateway)).length === 0, 60_000);
        }
      };
      await goesOn();
      await eventually("the replica of Redis is in step", async () => (await asked(second, "ROLE")).includes("connected"), 30_000);
      await first.kill9();
      await goesOn();
      await asked(second, "REPLICAOF", "NO", "ONE");
      await eventually("it is asked", async () => (await asked(second, "CLIENT", "LIST", "TYPE", "normal")).split("\n").length > 2, 60_000);
      await whole();
      await primary.kill9();
      for (const gateway of gateways) expect((await timed(gateway, stranger)).error?.code).toBe("store_unavailable");
      await goesOn();
      await standby.promote();
      await whole();
      for (const gateway of gateways) expect((await timed(gateway, stranger)).status).toBe(200);
      await goesOn();
      await eventually("both budgets are spent to the last call", () => Math.min(paidOf.poor, paidOf.grouped) >= budgetCalls, 60_000);
      over = true;
      const [steady = [], spending = [], ofGroup = [], limited = [], joining = []] = await Promise.all(loads);

      expect(tally(steady)).toEqual({ "200": steady.length });
      const spent = /^(200|503 store_unavailable|429 insufficient_quota)$/;
      for (const some of [spending, ofGroup]) expect(Object.keys(tally(some)).filter((kind) => !spent.test(kind))).toEqual([]);
      expect(Object.keys(tally(limited)).filter((kind) => !/^(200|429 rate_limit_exceeded)$/.test(kind))).toEqual([]);
      // What docs/replicas.md promises while Redis is lost.
      expect(mostInAMinute(limited)).toBeLessThanOrEqual(72);
      expect(Object.keys(tally(joining)).filter((kind) => !/^(200|429 concurrency_limit)$/.test(kind))).toEqual([]);
      expect(openStreams.most).toBeWithin(atOnce, 1.2 * atOnce + 1);
      // No stream was cut, and all of their places come back.
      expect(held.filter(({ response }) => response.timing.endMs !== null)).toEqual([]);
      for (const { abort } of held) abort();
      await eventually(
        "all places are free, and no more",
        async () => (await tallyAtOnce(gateways, placed, 2 * atOnce))["200"] === atOnce,
        30_000,
      );
      const [paid, paidOfGroup] = [count(spending, 200), count(ofGroup, 200)];
      expect([paid, paidOfGroup]).toEqual([budgetCalls, budgetCalls]);
      for (const [key, calls] of [
        [known, steady.length],
        [poor, paid],
        [grouped, paidOfGroup],
        [rated, count(limited, 200)],
        [stranger, 2],
      ] as const) {
        await eventually("all calls are in the sums", async () => (await summed(replicas, key)).calls >= calls, 30_000).catch(() => {});
        expect(await summed(replicas, key)).toEqual({ calls, nanos: calls * nanosPerCall });
      }
      const ofOrg = await replicas.store.storage.receipts.payments("grp_org", null);
      expect(ofOrg.reduce((sum, { nanos }) => sum + nanos, 0)).toBe(paidOfGroup * nanosPerCall);
      // Receipts have the time of the store, whatever their gateway believes.
      const { receipts } = replicas.store.storage;
      const times = await Promise.all(steady.slice(-40).map(async ({ requestId }) => (await receipts.find(requestId ?? ""))?.startedMs));
      expect(times.filter((ms) => ms === undefined || Math.abs(ms - beganMs) > 600_000)).toEqual([]);
    });
  },
);

async function asked({ url }: TestRedis, command: string, ...parts: readonly string[]): Promise<string> {
  const client = new RedisClient(url);
  try {
    const reply: unknown = await client.send(command, [...parts]);
    return typeof reply === "string" ? reply : JSON.stringify(reply);
  } finally {
    client.close();
  }
}
