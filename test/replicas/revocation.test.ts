// Needs: quiet, servers, long. It mostly waits for a revocation to reach the other replica.
import { RedisClient } from "bun";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { migrate } from "../../src/store/migrate.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { openDatabase } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { startChaos } from "../support/chaos.ts";
import { header } from "../support/chaos/request.ts";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { refusedPort } from "../support/refused-port.ts";
import {
  ben,
  inventedKey,
  makeKey,
  masterKey,
  opened,
  startReplicas,
  tally,
  type MadeKey,
  type Replica,
  type Replicas,
} from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const missing = remark(postgres, redis);

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
});

describe.skipIf(missing !== "")(`what is changed on one replica${missing}`, () => {
  let replicas: Replicas;

  beforeAll(async () => {
    replicas = await startReplicas({
      postgres: present(postgres),
      redis: present(redis),
      channels: { a: {}, b: {} },
      config: { allow_private: true },
    });
  });

  afterAll(async () => {
    await replicas?.[Symbol.asyncDispose]();
  });

  test("a new key opens the other one at once, and within 5 s also where it was refused a moment ago", async () => {
    const statuses = (key: MadeKey) =>
      Promise.all(replicas.all.map(async ({ gateway }) => (await chat(gateway, {}, { key: key.token })).status));
    expect(await statuses(await replicas.key())).toEqual([200, 200]);
    const later = inventedKey();
    expect(await statuses(later)).toEqual([401, 401]);
    await makeKey(replicas.store, {}, {}, later);
    await eventually("both know it", async () => (await statuses(later)).every((status) => status === 200), 5_000);
  });

  test("a revoked key is refused by the other within 5 s, and its streams there end with key_revoked", async () => {
    const key = await replicas.key();
    const streams = await Promise.all(
      replicas.all.flatMap(({ gateway }) => [1, 2].map(() => opened(gateway, key, { x_tokens: 1_000, x_pace_ms: 20 }))),
    );
    await Promise.all(streams.map((call) => call.untilBody(200)));
    const revokedMs = performance.now();
    await replicas.store.storage.keys.revoke(key.id, ben);
    const replies = await Promise.all(streams.map(({ reply }) => reply));
    expect(performance.now() - revokedMs).toBeLessThan(slowed(5_000));
    expect(tally(replies)).toEqual({ "200 key_revoked": 4 });
    expect(replies.map(({ done }) => done)).toEqual([false, false, false, false]);
    for (const { gateway } of replicas.all) expect((await chat(gateway, {}, { key: key.token })).status).toBe(401);
  });

  test("a channel that was added serves on the other within 5 s, with its secret, and is gone as soon when it is removed", async () => {
    const key = await replicas.key();
    await using upstream = await startChaos({ name: "added" });
    const { storage, channelSecrets } = replicas.store;
    const ask = () => chat(replicas.b.gateway, { model: "only-there" }, { key: key.token, headers: {} });
    const secret = "sk-added-0123456789";
    await storage.channels.create(
      {
        name: "added",
        entry: { base_url: upstream.url, models: { "only-there": "chaos" }, tier: 1 },
        sealed: channelSecrets.encrypt("added", [secret]),
        last4: ["6789"],
      },
      ben,
    );
    const models = async (): Promise<string> => (await ask()).channel ?? "";
    await eventually("it serves", async () => (await models()) === "added", 5_000);
    expect(header(upstream.ledger.chats[0]!, "authorization")).toBe(`Bearer ${secret}`);
    await storage.channels.remove("added", ben);
    await eventually("it does not any more", async () => (await models()) !== "added", 5_000);
    for (const { gateway } of replicas.all) expect(gateway.text).not.toContain(secret);
  });

  test("a cool-down is a hint to the other: it avoids the channel that told this one to come back later", async () => {
    const key = await replicas.key();
    const { a } = replicas.upstream;
    const model = "hinted";
    a!.behaviour = "fault:rate-limit@retry-after=30";
    while (a!.ledger.chats.filter((attempt) => attempt.model === model).length === 0) {
      expect((await chat(replicas.a.gateway, { model }, { key: key.token })).status).toBe(200);
    }
    a!.behaviour = null;
    const askedA = (): number => a!.ledger.chats.filter((attempt) => attempt.model === model).length;
    await eventually("the other has heard of it", async () => {
      const before = askedA();
      for (let calls = 0; calls < 12; calls += 1) await chat(replicas.b.gateway, { model }, { key: key.token });
      return askedA() === before;
    });
  });

  test("an item of an answer can be referred to at the other one, and nobody can read it in Redis", async () => {
    const key = await replicas.key();
    const respond = async (
      { gateway }: Replica,
      input: unknown,
    ): Promise<{ status: number; output: readonly { readonly id: string }[] }> => {
      const answer = await fetch(`${gateway.url}/v1/responses`, {
        method: "POST",
        headers: { authorization: `Bearer ${key.token}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "any", input }),
      });
      const { output = [] } = (await answer.json()) as { output?: readonly { readonly id: string }[] };
      return { status: answer.status, output };
    };
    let id = "";
    // A busy machine may leave Redis too little time, and then an item stays where it was made.
    await eventually("the other has it", async () => {
      id = (await respond(replicas.a, "Hello.")).output[0]!.id;
      const referred = [
        { type: "item_reference", id },
        { role: "user", content: "And?" },
      ];
      return (await respond(replicas.b, referred)).status === 200;
    });
    const client = new RedisClient(present(redis).url);
    try {
      const kept = String(await client.get(`sluice:item:{${key.id}}:${id}`));
      expect(kept).toMatch(/^[0-9a-f]{8}\.[\w+/=-]+$/);
      expect(await client.pttl(`sluice:item:{${key.id}}:${id}`)).toBeGreaterThan(0);
    } finally {
      client.close();
    }
  });

  test("F60: a newer version's additive step is taken under a running one, which serves on, restarts and is not harmed", async () => {
    const key = await replicas.key();
    const database = await openDatabase({ store: replicas.url, dataDir: "" });
    const own = migrations.at(-1)!;
    try {
      const newer = {
        number: own.number + 1,
        name: "a column that is only known to the newer one",
        reads: own.reads,
        statements: [sql`alter table keys add column colour text`, sql`create table colours (name text primary key)`],
      };
      const load = Promise.all(
        replicas.all.map(async ({ gateway }) => {
          const replies = [];
          for (let calls = 0; calls < 60; calls += 1) replies.push(await chat(gateway, {}, { key: key.token }));
          return replies;
        }),
      );
      expect((await migrate(database, { migrations: [...migrations, newer] })).map(({ number }) => number)).toEqual([newer.number]);
      await database.run(sql`update keys set colour = 'red' where id = ${key.id}`);
      expect(tally((await load).flat())).toEqual({ "200": 120 });
      const fresh = await replicas.key();
      expect((await chat(replicas.a.gateway, {}, { key: fresh.token })).status).toBe(200);
      await using again = await startGateway({ config: replicas.a.config, env: { SLUICE_MASTER_KEY: masterKey } });
      const { id, token } = await replicas.key();
      expect((await chat(again, {}, { key: token })).status).toBe(200);
      await replicas.store.storage.keys.change(id, { note: "by the older one" }, ben);
      await eventually("receipts arrive", async () => (await replicas.calls(id)) === 1 && (await replicas.calls(key.id)) === 120);
      expect(await database.all(sql`select colour from keys where id = ${key.id}`)).toEqual([{ colour: "red" }]);
    } finally {
      await database.close();
    }
  });
});

describe.skipIf(missing !== "")(`a start${missing}`, () => {
  test("while PostgreSQL is down says so, in words, and starts nothing", async () => {
    const config = { store: `postgres://postgres@127.0.0.1:${refusedPort()}/none`, channels: [] };
    await expect(startGateway({ config })).rejects.toThrow(
      /ended with 1[\s\S]*PostgreSQL cannot be reached[\s\S]*The gateway was not started/,
    );
  });

  test("with another master key than the store was begun with is refused, in words", async () => {
    await using replicas = await startReplicas({ postgres: present(postgres), redis: null, count: 0 });
    const config = { store: replicas.url, channels: [] };
    await expect(startGateway({ config, env: { SLUICE_MASTER_KEY: "0b".repeat(15) + masterKey.slice(30) } })).rejects.toThrow(
      /ended with 78[\s\S]*another master key than SLUICE_MASTER_KEY[\s\S]*The gateway was not started/,
    );
    await expect(startGateway({ config })).rejects.toThrow(/ended with 78[\s\S]*created with a master key, and there is none here/);
  });

  test("of the first two at once on an empty database is fine for both", async () => {
    await using replicas = await startReplicas({ postgres: present(postgres), redis: present(redis) });
    expect(replicas.all.length).toBe(2);
  });
});
