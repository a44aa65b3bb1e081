import { RedisClient } from "bun";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "./support/eventually.ts";
import { ben, count, degraded, offer, opened, startReplicas, tally, timed, type Replica, type Replicas } from "./support/replicas.ts";
import { present, remark } from "./support/servers/obtain.ts";
import { startPostgres } from "./support/servers/postgres.ts";
import { startRedis, type TestRedis } from "./support/servers/redis.ts";

setDefaultTimeout(60_000);

const postgres = await startPostgres({ fsync: false });
const first = await startRedis();
const missing = remark(postgres, first);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in first)) await first.stop();
});

/** Whoever took as long has waited for Redis until nobody does any more, or the machine was busy. */
const deadlineMs = 95;

/** How Redis is lost, and how it comes back. */
interface Loss {
  readonly name: string;
  readonly begin: (replica: Replica, server: TestRedis) => unknown;
  readonly end: (replica: Replica, server: TestRedis) => unknown;
}

const losses: readonly Loss[] = [
  { name: "refuses connections", begin: ({ toRedis }) => toRedis!.cut(), end: ({ toRedis }) => toRedis!.mend() },
  { name: "is frozen", begin: (_, server) => server.pause(), end: (_, server) => server.resume() },
  { name: "answers after 5 s", begin: ({ toRedis }) => toRedis!.delay(2_500), end: ({ toRedis }) => toRedis!.mend() },
  {
    name: "has no memory left",
    begin: (_, server) => tell(server, "CONFIG", "SET", "maxmemory", "1"),
    end: (_, server) => tell(server, "CONFIG", "SET", "maxmemory", "0"),
  },
  {
    name: "takes no writes",
    begin: (_, server) => tell(server, "REPLICAOF", "127.0.0.1", "1"),
    end: (_, server) => tell(server, "REPLICAOF", "NO", "ONE"),
  },
  {
    name: "answers nonsense",
    begin: ({ toRedis }) => toRedis!.corrupt(Number.MAX_SAFE_INTEGER),
    end: ({ toRedis }) => toRedis!.mend(),
  },
];

async function tell({ url }: TestRedis, command: string, ...parts: string[]): Promise<void> {
  const client = new RedisClient(url);
  try {
    await client.send(command, parts);
  } finally {
    client.close();
  }
}

/** Runs each against a Redis and a gateway of its own, all at the same time: each takes as long as a lost Redis is left alone. */
async function play({ begin, end }: Loss): Promise<Readonly<Record<string, unknown>>> {
  await using server = present(await startRedis());
  await using replicas = await startReplicas({
    postgres: present(postgres),
    redis: server,
    count: 1,
    config: { prices: [{ model: "*", call: 0.01 }] },
  });
  const replica = replicas.a;
  const { gateway } = replica;
  const [rated, poor, after] = [
    await replicas.key({ requests: 100 }),
    await replicas.key({ budget: { nanos: 300_000_000, period: "total" }, requests: 10_000 }),
    await replicas.key({ requests: 60 }),
  ];
  const warm = await offer([gateway], rated, { clients: 1, forMs: 5_000, enough: (so) => so.length >= 20 });
  await begin(replica, server);
  const calls = await offer([gateway], rated, { clients: 1, forMs: 5_000, enough: (so) => so.length >= 250 });
  const spent = await offer([gateway], poor, { clients: 6, forMs: 5_000, enough: (so) => so.length >= 120 });
  const lost = await degraded(gateway);
  await end(replica, server);
  await eventually("Redis is back", async () => (await degraded(gateway)).length === 0, 15_000);
  const back = await offer([gateway], after, { clients: 2, forMs: 5_000, enough: (so) => so.length >= 90 });
  const payers = calls.flatMap(({ tookMs }, at) => (tookMs >= deadlineMs ? [at] : []));
  return {
    kinds: [...new Set([...warm, ...calls, ...back].map(({ status }) => status))].toSorted((one, other) => one - other),
    admitted: count([...warm, ...calls], 200),
    payers: payers.length,
    lastPayer: payers.at(-1) ?? -1,
    slowest: Math.max(...calls.map(({ tookMs }) => tookMs)),
    spent: count(spent, 200),
    spending: tally(spent),
    lost,
    back: count(back, 200),
  };
}

// Each of these takes as long as a lost Redis is left alone, so that they are played at once, beside the first tests.
const played = Promise.all(missing === "" ? losses.map((loss) => play(loss).catch((error: unknown) => ({ error: String(error) }))) : []);

describe.skipIf(missing !== "")(`a partition${missing}`, () => {
  test("F66: one that cannot reach Redis and one that can admit at most 1.2 times the limit once they know, and revocation reaches both", async () => {
    await using replicas: Replicas = await startReplicas({ postgres: present(postgres), redis: present(first) });
    const gateways = replicas.all.map(({ gateway }) => gateway);
    await replicas.acquainted();
    // The first notices that it is cut off, and the other hears of it.
    replicas.a.toRedis!.cut();
    const notice = await replicas.key({ requests: 1_000 });
    await offer([replicas.a.gateway], notice, { clients: 1, forMs: 5_000, enough: (so) => so.length >= 10 });
    await eventually("the other has heard, and does not count on it", async () => (await replicas.seenMs()).length === 1, 8_000);
    const key = await replicas.key({ requests: 200 });
    const replies = await offer(gateways, key, { clients: 3, forMs: 4_000, enough: (so) => count(so, 429) > 800 });
    expect(count(replies, 200) + count(replies, 429)).toBe(replies.length);
    expect(count(replies, 200)).toBeGreaterThanOrEqual(190);
    expect(count(replies, 200)).toBeLessThanOrEqual(240);
    expect(await degraded(replicas.a.gateway)).toEqual(["redis"]);
    expect(await degraded(replicas.b.gateway)).toEqual([]);

    const doomed = await replicas.key();
    const streams = await Promise.all(gateways.map((gateway) => opened(gateway, doomed, { x_tokens: 1_000, x_pace_ms: 20 })));
    await Promise.all(streams.map((call) => call.untilBody(200)));
    await replicas.store.storage.keys.revoke(doomed.id, ben);
    const ended = await Promise.all(streams.map(({ reply }) => reply));
    expect(tally(ended)).toEqual({ "200 key_revoked": 2 });
    expect((await timed(replicas.a.gateway, doomed)).status).toBe(401);
  });
});

describe.skipIf(missing !== "")(`a Redis that is lost${missing}`, () => {
  test("F59: that restarts empty lets no replica admit more than its limit, and is used again at once", async () => {
    await using server = present(await startRedis());
    await using replicas = await startReplicas({ postgres: present(postgres), redis: server, count: 1 });
    const { gateway } = replicas.a;
    const key = await replicas.key({ requests: 100 });
    const before = await offer([gateway], key, { clients: 2, forMs: 5_000, enough: (so) => so.length >= 80 });
    await server.kill9();
    await server.start();
    const after = await offer([gateway], key, { clients: 2, forMs: 3_000, enough: (so) => so.length >= 200 });
    expect(count([...before, ...after], 200)).toBeGreaterThanOrEqual(95);
    expect(count([...before, ...after], 200)).toBeLessThanOrEqual(120);
    expect(count(after, 200) + count(after, 429)).toBe(after.length);
  });

  test.each(losses.map(({ name }, at) => ({ name, at })))(
    "F59: $name: a handful of calls pay 100 ms, then none; limits hold, budgets stay closed, and it recovers by itself",
    async ({ at }) => {
      const seen = (await played)[at] as Record<string, number>;
      expect(seen["error"]).toBeUndefined();
      expect(seen["kinds"] as unknown).toEqual([200, 429]);
      expect(seen["admitted"]).toBeGreaterThanOrEqual(95);
      expect(seen["admitted"]).toBeLessThanOrEqual(120);
      expect(seen["payers"]).toBeLessThanOrEqual(6);
      expect(seen["slowest"]).toBeLessThan(600);
      expect(seen["spent"]).toBeLessThanOrEqual(30);
      expect(seen["lost"] as unknown).toEqual(["redis"]);
      expect(seen["back"]).toBe(60);
    },
  );
});
