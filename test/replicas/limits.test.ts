// Needs: quiet, servers. It mostly waits for minutes of calls that are paced.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { count, mostAtOnce, offer, opened, startReplicas, tally, type Replicas } from "../support/replicas.ts";
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

const prices = [{ model: "*", call: 0.01 }];

describe.each(["Redis", "PostgreSQL alone"])("limits over two replicas, through %s", (through) => {
  const servers = through === "Redis" ? [postgres, redis] : [postgres];
  describe.skipIf(remark(...servers) !== "")(`where there is one${remark(...servers)}`, () => {
    let replicas: Replicas;

    beforeAll(async () => {
      replicas = await startReplicas({
        postgres: present(postgres),
        redis: through === "Redis" ? present(redis) : null,
        config: { prices },
      });
    });

    afterAll(async () => {
      await replicas?.[Symbol.asyncDispose]();
    });

    const gateways = () => replicas.all.map(({ gateway }) => gateway);

    test("P15: requests per minute are admitted to within 5 %", async () => {
      await replicas.acquainted();
      const key = await replicas.key({ requests: 300 });
      const replies = await offer(gateways(), key, { clients: 4, forMs: 20_000, enough: (so) => count(so, 429) > 1_000 });
      expect(count(replies, 200) + count(replies, 429)).toBe(replies.length);
      expect(count(replies, 429)).toBeGreaterThan(300);
      expect(count(replies, 200)).toBeLessThanOrEqual(315);
      expect(count(replies, 200)).toBeGreaterThanOrEqual(285);
    });

    test("calls at the same time are as many as the key may have, and the places come back", async () => {
      const key = await replicas.key({ concurrency: 6 });
      const before = replicas.attempts.length;
      const round = () =>
        Promise.all(
          Array.from({ length: 20 }, async (_, at) => {
            const call = await opened(gateways()[at % 2]!, key, { x_tokens: 50, x_pace_ms: 60 });
            return call.reply;
          }),
        );
      const replies = await round();
      expect(tally(replies)).toEqual({ "200": 6, "429 concurrency_limit": 14 });
      expect(mostAtOnce(replicas.attempts.slice(before))).toBe(6);
      await eventually("the places are free again", async () => count(await round(), 200) === 6, 15_000);
    });

    test("a budget is spent to the last call and not beyond, whoever asks", async () => {
      const key = await replicas.key({ budget: { nanos: 500_000_000, period: "total" } });
      const before = replicas.attempts.length;
      const replies = await offer(gateways(), key, { clients: 20, forMs: 20_000, enough: (so) => count(so, 429) > 200 });
      expect(replicas.attempts.length - before).toBe(count(replies, 200));
      expect(count(replies, 200)).toBe(50);
      await eventually("every call is in the sums", async () => (await replicas.calls(key.id)) === count(replies, 200));
    });
  });
});
