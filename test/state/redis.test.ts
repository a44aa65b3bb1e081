// Needs: quiet, servers. It mostly waits for expiries in Redis.
import { RedisClient } from "bun";
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { RedisCounts } from "../../src/state/redis/counts.ts";
import { RedisLink } from "../../src/state/redis/link.ts";
import type { RedisServersOptions } from "../../src/state/redis/servers.ts";
import { StoreGuard } from "../../src/state/store-guard.ts";
import { contractSlotMs, testCountsContract } from "../support/counts-contract.ts";
import { eventually } from "../support/eventually.ts";
import { admitted, after, limitRig, requests, span } from "../support/joint-rig.ts";
import { freePort, GuardedServer } from "../support/servers/guarded.ts";
import { findRedis, present, remark } from "../support/servers/obtain.ts";
import { startRedis, startSentinel, type TestRedis } from "../support/servers/redis.ts";
import { makeCertificates } from "../support/tls.ts";

const found = await startRedis();
const noRedis = remark(found);
const redis = present(found);

afterAll(async () => {
  if (noRedis === "") await redis.stop();
});

describe.skipIf(noRedis !== "")(`counts in Redis${noRedis}`, () => {
  testCountsContract({
    open: async () => new RedisCounts(new RedisLink({ url: redis.url }), { prefix: "contract:", span: span(contractSlotMs) }),
  });
});

describe.skipIf(noRedis !== "" || !redis.controlled)(`the slots of an ended process in Redis${noRedis}`, () => {
  test("are found among the limits of 100,000 keys with few commands, and those of others stay", async () => {
    await using server = present(await startRedis());
    const link = new RedisLink({ url: server.url, connectMs: 2_000 });
    const counts = new RedisCounts(link);
    const lease = (id: string, call: string) => ({ id, call, limit: 9, ttlMs: 60_000 });
    const ids = ["a slots", "b slots", "c slots"];
    for (const id of ids) await counts.take([], [lease(id, "dead-1"), lease(id, "dead-2"), lease(id, "deadly-1")]);
    await asked(server, "EVAL", fill, "0");
    const before = link.commands;
    await counts.forget("dead");
    expect(link.commands - before).toBeLessThan(1_500);
    for (const id of ids)
      expect(await asked(server, "ZRANGE", `sluice:{${id.split(" ")[0]}}:places:${id}`, "0", "-1")).toEqual(["deadly-1"]);
    expect(await asked(server, "DBSIZE")).toBe(100_000 + ids.length + 1);
    counts.close();
  }, 60_000);
});

/** Makes a limit with a slot of another process for each of 100,000 client keys. */
const fill = "for k = 1, 100000 do redis.call('ZADD', 'sluice:{k' .. k .. '}:places:k' .. k .. ' slots', 9e15, 'living-' .. k) end";

describe.skipIf(noRedis !== "" || !redis.controlled)(`a connection to Redis${noRedis}`, () => {
  const links: RedisLink[] = [];
  const opened = (options: RedisServersOptions): RedisLink => {
    const link = new RedisLink(options);
    links.push(link);
    return link;
  };

  afterEach(() => {
    for (const link of links.splice(0)) link.close();
  });

  test("that may lead to two servers leads to the primary, and away from one that becomes a replica or ends", async () => {
    await using primary = present(await startRedis());
    await using other = present(await startRedis());
    await using sentinel = present(await startSentinel(primary));
    await asked(other, "REPLICAOF", primary.host, String(primary.port));
    const links = {
      named: opened({ url: `redis://${other.host}:${other.port},${primary.host}:${primary.port}`, connectMs: 2_000 }),
      watched: opened({ url: `redis+sentinel://${sentinel.host}:${sentinel.port}/main`, connectMs: 2_000 }),
    };
    const writes = async (where: TestRedis): Promise<void> => {
      for (const [name, link] of Object.entries(links)) {
        const text = crypto.randomUUID();
        await eventually("it takes a write", async () => (await link.send("SET", [name, text]).catch(() => null)) === "OK", 20_000);
        expect([name, await asked(where, "GET", name)]).toEqual([name, text]);
      }
    };
    await writes(primary);
    // They change places, and the connections stay open.
    await asked(other, "REPLICAOF", "NO", "ONE");
    await asked(primary, "REPLICAOF", other.host, String(other.port));
    await asked(sentinel, "SENTINEL", "REMOVE", "main");
    await asked(sentinel, "SENTINEL", "MONITOR", "main", other.host, String(other.port), "1");
    await writes(other);
    await asked(primary, "REPLICAOF", "NO", "ONE");
    await asked(sentinel, "SENTINEL", "REMOVE", "main");
    await asked(sentinel, "SENTINEL", "MONITOR", "main", primary.host, String(primary.port), "1");
    await other.kill9();
    await writes(primary);
  }, 60_000);

  test("by a single name leads away from a server that becomes a replica, to the one that has the name by then", async () => {
    let connections = 0;
    using server = Bun.listen<{ readonly isReplica: boolean }>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open(socket) {
          connections += 1;
          socket.data = { isReplica: connections === 1 };
        },
        data(socket, bytes) {
          if (bytes.toString().includes("HELLO")) socket.write("%1\r\n+server\r\n+redis\r\n");
          else socket.write(socket.data.isReplica ? "-READONLY You can't write against a read only replica.\r\n" : "+OK\r\n");
        },
      },
    });
    const link = opened({ url: `redis://127.0.0.1:${server.port}`, connectMs: 2_000 });
    expect(String(await link.send("SET", ["name", "text"]).catch((error: unknown) => error))).toContain("READONLY");
    expect(await link.send("SET", ["name", "text"])).toBe("OK");
    expect(connections).toBe(2);
  });

  test.each(["redis://a:1,,b:2", "redis+sentinel://a:1", "redis+sentinel://a:1/name/x", "redis+sentinel:///name"])(
    "is not opened with the address %s, in words",
    (url) => expect(() => new RedisLink({ url })).toThrow("The address of `state` is wrong"),
  );

  test("never takes a late reply for another's", async () => {
    const link = opened({ url: redis.url });
    const guard = new StoreGuard({
      nowMs: () => performance.now(),
      after,
      deadlineMs: 60,
      failuresMax: 1_000,
      probe: async () => {},
      overdue: () => link.drop(),
    });
    const echo = async (text: string): Promise<unknown> => guard.run(() => link.send("ECHO", [text]));
    expect(await echo("before")).toBe("before");
    await redis.pause();
    const lost = await Promise.allSettled([echo("late 1"), echo("late 2"), echo("late 3")]);
    expect(lost.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    const lastLost = echo("late 4").catch((error: unknown) => error);
    redis.resume();
    await lastLost;
    for (let call = 0; call < 50; call += 1) expect(await echo(`call ${call}`)).toBe(`call ${call}`);
    guard.stop();
  });

  test("speaks with the password and to the database that its address names, also over TLS", async () => {
    const { ca, plainPort, tlsPort, stop } = await startSecured();
    try {
      for (const options of [
        { url: `redis://:open%20sesame@127.0.0.1:${plainPort}/3` },
        { url: `rediss://:open%20sesame@localhost:${tlsPort}/3`, tls: { ca } },
      ]) {
        const link = opened({ ...options, connectMs: 2_000 });
        expect(String(await link.send("CLIENT", ["INFO"]))).toContain("db=3");
      }
      const wrong = opened({ url: `redis://:wrong@127.0.0.1:${plainPort}/3` });
      const refusal = await wrong.send("PING", []).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(Error);
      expect(String(refusal)).not.toContain("wrong@");
      const stranger = opened({ url: `rediss://:open%20sesame@localhost:${tlsPort}`, connectMs: 2_000 });
      expect(await stranger.send("PING", []).catch((error: unknown) => error)).toBeInstanceOf(Error);
    } finally {
      await stop();
    }
  });

  test.each([
    ["breaks off in the middle of a reply", "*3\r\n:1\r\n$5\r\nhe"],
    ["speaks another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"],
    ["announces more than there can be", "$99999999999\r\n"],
    ["has no room", "-OOM command not allowed when used memory > 'maxmemory'.\r\n"],
    ["is a replica", "-READONLY You can't write against a read only replica.\r\n"],
    ["still loads", "-LOADING Redis is loading the dataset in memory\r\n"],
    ["is another node of a cluster", "-MOVED 3999 127.0.0.1:6381\r\n"],
    ["answers what was not asked for", "*2\r\n:1\r\n+what\r\n"],
    ["answers nothing", "*-1\r\n"],
  ])("to a server that %s is a failure like any other", async (_, reply) => {
    const server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket, bytes) {
          const hello = bytes.toString().includes("HELLO");
          socket.write(hello ? "%1\r\n+server\r\n+redis\r\n" : reply);
          if (!hello) setTimeout(() => socket.end(), 20);
        },
      },
    });
    const link = opened({ url: `redis://127.0.0.1:${server.port}` });
    const { rates, guard } = limitRig({ counts: new RedisCounts(link), drop: () => link.drop() });
    for (let call = 0; call < 20; call += 1) expect(await admitted(rates, [requests("key", 40)])).toBe(true);
    expect(guard.health()).toBe("degraded");
    await rates.stop();
    guard.stop();
    server.stop(true);
  });
});

interface Secured {
  readonly ca: string;
  readonly plainPort: number;
  readonly tlsPort: number;
  readonly stop: () => Promise<void>;
}

/** A server with a password and a certificate of its own. */
async function startSecured(): Promise<Secured> {
  const guarded = new GuardedServer("redis-tls");
  const certificates = await makeCertificates();
  if (certificates === null) throw new Error("there is no openssl to make a certificate with");
  const { authority, valid } = certificates;
  const { folder } = guarded;
  writeFileSync(join(folder, "cert.pem"), valid.cert);
  writeFileSync(join(folder, "key.pem"), valid.key);
  writeFileSync(join(folder, "authority.pem"), authority);
  const [plainPort, tlsPort] = [freePort(), freePort()];
  const binaries = findRedis();
  if ("skipped" in binaries) throw new Error(binaries.skipped);
  const settings = {
    port: String(plainPort),
    "tls-port": String(tlsPort),
    "tls-cert-file": "cert.pem",
    "tls-key-file": "key.pem",
    "tls-ca-cert-file": "authority.pem",
    "tls-auth-clients": "no",
    requirepass: "open sesame",
    bind: "127.0.0.1 ::1",
    save: "",
    dir: folder,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, ...(name === "bind" ? value.split(" ") : [value])]);
  await guarded.launch([binaries.path, ...flags], { libraries: binaries.libraries, user: {} }, async () =>
    guarded.output.includes("eady to accept connections"),
  );
  return { ca: authority, plainPort, tlsPort, stop: async () => guarded.stop() };
}

async function asked({ url }: TestRedis, command: string, ...parts: readonly string[]): Promise<unknown> {
  const client = new RedisClient(url);
  try {
    return await client.send(command, [...parts]);
  } finally {
    client.close();
  }
}
