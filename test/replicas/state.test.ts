// Needs: alone, servers. A Redis that takes longer than 100 ms counts as lost, which shifts the figures that it judges.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { valueOf } from "../support/exposition.ts";
import type { Gateway } from "../support/gateway.ts";
import {
  ben,
  count,
  degraded,
  exposed,
  offer,
  opened,
  openMetrics,
  startReplicas,
  tally,
  timed,
  type Replicas,
} from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const postgres = await startPostgres({ fsync: false });
const first = await startRedis();
const missing = remark(postgres, first);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in first)) await first.stop();
});

describe.skipIf(missing !== "")(`a partition${missing}`, () => {
  test("F66: one that cannot reach Redis and one that can admit at most 1.2 times the limit from the first moment, and revocation reaches both", async () => {
    await using replicas: Replicas = await startReplicas({ postgres: present(postgres), redis: present(first), config: openMetrics });
    const gateways = replicas.all.map(({ gateway }) => gateway);
    await replicas.acquainted();
    const [used, fresh, doomed] = [await replicas.key({ requests: 400 }), await replicas.key({ requests: 200 }), await replicas.key()];
    const before = await offer(gateways, used, { clients: 1, forMs: 4_000, enough: (so) => so.length >= 100 });
    expect(tally(before)).toEqual({ "200": before.length });
    const streams = await Promise.all(gateways.map((gateway) => opened(gateway, doomed, { x_tokens: 2_000, x_pace_ms: 20 })));
    await Promise.all(streams.map((call) => call.untilBody(200)));

    replicas.a.toRedis!.cut();
    // Both are asked for more than there is, before anybody knows, while they come to know, and after.
    let over = false;
    const enoughMs = performance.now() + 6_000;
    const load = [used, fresh].map(async (key) =>
      offer(gateways, key, { clients: 1, forMs: 20_000, restMs: 10, enough: () => over && performance.now() > enoughMs }),
    );
    await eventually("the other has heard, and does not count on it", async () => (await replicas.seenMs()).length === 1, 10_000);
    await replicas.store.storage.keys.revoke(doomed.id, ben);
    const revokedMs = performance.now();
    const ended = await Promise.all(streams.map(({ reply }) => reply));
    expect(tally(ended)).toEqual({ "200 key_revoked": 2 });
    expect(performance.now() - revokedMs).toBeLessThan(slowed(15_000));
    expect((await timed(replicas.a.gateway, doomed)).status).toBe(401);
    over = true;
    const [ofUsed = [], ofFresh = []] = await Promise.all(load);
    for (const replies of [ofUsed, ofFresh]) expect(count(replies, 200) + count(replies, 429)).toBe(replies.length);
    expect(count(before, 200) + count(ofUsed, 200)).toBeLessThanOrEqual(480);
    expect(count(before, 200) + count(ofUsed, 200)).toBeGreaterThanOrEqual(200);
    expect(count(ofFresh, 200)).toBeLessThanOrEqual(240);
    expect(count(ofFresh, 200)).toBeGreaterThanOrEqual(100);
    expect(await degraded(replicas.a.gateway)).toEqual(["redis"]);
    const limitsUp = async (gateway: Gateway): Promise<number> =>
      valueOf(await exposed(gateway), "sluice_shared_limits_up", { kind: "redis" });
    await eventually("the metrics of each say so", async () => String(await Promise.all(gateways.map(limitsUp))) === "0,1");
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
});
