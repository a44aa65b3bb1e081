// Needs: quiet, servers. It mostly waits for servers to start, stop and stall.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { RedisClient, SQL } from "bun";
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres, startPostgresPair } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";

setDefaultTimeout(60_000);

// No machine is lost here, so no commit has to wait for the disk.
const found = { postgres: await startPostgres({ fsync: false }), redis: await startRedis() };
const noPostgres = remark(found.postgres);
const noRedis = remark(found.redis);
const [postgres, redis] = [present(found.postgres), present(found.redis)];
const notOurs = noRedis === "" && !redis.controlled ? " (skipped: the server of REDIS_URL is not ours to stop)" : noRedis;

afterAll(async () => {
  if (noPostgres === "") await postgres.stop();
  if (noRedis === "") await redis.stop();
});

async function query(url: string, text: string, withinMs = 5_000): Promise<unknown> {
  const sql = new SQL({ url, max: 1, connectionTimeout: Math.ceil(withinMs / 1000) });
  try {
    return await within(withinMs, sql.unsafe(text));
  } finally {
    void sql.close({ timeout: 0 }).catch(() => {});
  }
}

/** What comes in time, else "nothing". */
async function within<Value>(ms: number, promise: Promise<Value>): Promise<Value | "nothing"> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"nothing">((resolve) => {
    timer = setTimeout(() => resolve("nothing"), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

describe.skipIf(noPostgres !== "")(`a real PostgreSQL${noPostgres}`, () => {
  test("is of version 15 or later", async () => {
    expect(Number.parseInt(postgres.version, 10)).toBeGreaterThanOrEqual(15);
    expect(JSON.stringify(await query(postgres.url, "SHOW server_version"))).toContain(postgres.version);
  });

  test("gives databases that do not know one another", async () => {
    const [one, other] = [await postgres.freshDatabase(), await postgres.freshDatabase()];
    await query(one, "CREATE TABLE here (n int)");
    expect(await query(one, "SELECT to_regclass('here')::text AS name")).toEqual([{ name: "here" }]);
    expect(await query(other, "SELECT to_regclass('here')::text AS name")).toEqual([{ name: null }]);
  });

  test("paused, answers nobody, neither old connections nor new ones; resumed, it goes on", async () => {
    const sql = new SQL({ url: postgres.url, max: 1 });
    await sql`SELECT 1`;
    await postgres.pause();
    const asked = sql.unsafe("SELECT 7 AS n");
    expect(await within(300, asked)).toBe("nothing");
    const fresh = query(postgres.url, "SELECT 8 AS n");
    expect(await within(300, fresh)).toBe("nothing");
    postgres.resume();
    expect(await within(5_000, asked)).toEqual([{ n: 7 }]);
    expect(await fresh).toEqual([{ n: 8 }]);
    await sql.close();
  });

  test("killed with its connections open, is gone at once, and comes back with all that was committed", async () => {
    const url = await postgres.freshDatabase();
    await query(url, "CREATE TABLE kept (n int)");
    await query(url, "INSERT INTO kept VALUES (42)");
    const left = new SQL({ url, max: 1 });
    await left`SELECT 1`;
    await postgres.kill9();
    expect(await query(url, "SELECT 1", 1_000).catch(() => "refused")).toBe("refused");
    await postgres.start();
    expect(await query(url, "SELECT n FROM kept")).toEqual([{ n: 42 }]);
    await left.close({ timeout: 0 }).catch(() => {});
  });

  test("killed while paused, it comes back too", async () => {
    await postgres.pause();
    await postgres.kill9();
    await postgres.start();
    expect(await query(postgres.url, "SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });

  test("with a standby, loses nothing that was committed when the standby takes its place", async () => {
    const { primary, standby } = present(await startPostgresPair({ fsync: false }));
    try {
      const name = new URL(await primary.freshDatabase()).pathname.slice(1);
      await query(primary.urlOf(name), "CREATE TABLE kept AS SELECT 42 AS n");
      expect(await query(standby.url, "SHOW transaction_read_only")).toEqual([{ transaction_read_only: "on" }]);
      await primary.kill9();
      await standby.promote();
      expect(await query(standby.urlOf(name), "INSERT INTO kept SELECT n + 1 FROM kept RETURNING n")).toEqual([{ n: 43 }]);
    } finally {
      await Promise.all([primary.stop(), standby.stop()]);
    }
  });
});

describe.skipIf(notOurs !== "")(`a real Redis or Valkey${notOurs}`, () => {
  const connect = (): RedisClient => new RedisClient(redis.url, { autoReconnect: false, connectionTimeout: 2_000 });

  test("keeps what it is told, until it is killed: it comes back empty, on the same port", async () => {
    const client = connect();
    await client.set("name", "value");
    expect(await client.get("name")).toBe("value");
    await redis.kill9();
    expect(await client.get("name").catch(() => "lost")).toBe("lost");
    await redis.start();
    const again = connect();
    expect(await again.get("name")).toBeNull();
    again.close();
    client.close();
  });

  test("paused, answers nobody; resumed, it goes on", async () => {
    const client = connect();
    await client.set("name", "before");
    await redis.pause();
    const asked = client.get("name");
    expect(await within(300, asked)).toBe("nothing");
    redis.resume();
    expect(await asked).toBe("before");
    client.close();
  });
});

describe("a test that is killed", () => {
  const support = join(import.meta.dir, "../support/servers");

  test.skipIf(noPostgres + notOurs !== "")(`leaves neither servers nor files behind, even paused ones${noPostgres}${notOurs}`, async () => {
    const program = `
      import { startPostgres, startPostgresPair } from ${JSON.stringify(join(support, "postgres.ts"))};
      import { startRedis } from ${JSON.stringify(join(support, "redis.ts"))};
      const [postgres, redis] = await Promise.all([startPostgres({ fsync: false }), startRedis()]);
      await postgres.pause();
      console.log(JSON.stringify({ ports: [postgres.port, redis.port], folder: postgres.folder }));
      setInterval(() => {}, 1000);
    `;
    // PostgreSQL may run as somebody else, who has to get in.
    const home = mkdtempSync(join(tmpdir(), "sluice-killed-"));
    chmodSync(home, 0o755);
    const environment = { ...process.env, TMPDIR: home };
    const child = Bun.spawn([process.execPath, "-e", program], { env: environment, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
    try {
      const complaint = new Response(child.stderr).text();
      const line = await firstLine(child.stdout);
      if (line === null) throw new Error(`the program ended without a word to standard output: ${await complaint}`);
      const { ports, folder } = JSON.parse(line) as { readonly ports: readonly number[]; readonly folder: string };
      /** The folder of PostgreSQL may be in memory. */
      const folders = (): number => new Set([...readdirSync(home).map((name) => join(home, name)), folder].filter(existsSync)).size;
      expect(folders()).toBe(2);
      for (const port of ports) expect(await connects(port)).toBe(true);
      // Whoever removes the files of a test that has ended may be quicker than the guard.
      for (const name of readdirSync(home)) rmSync(join(home, name, "server.pid"));
      child.kill("SIGKILL");
      await child.exited;
      const open = (): Promise<readonly boolean[]> => Promise.all(ports.map((port) => connects(port)));
      await eventually("no server is left", async () => !(await open()).includes(true) && folders() === 0, 10_000);
    } finally {
      child.kill("SIGKILL");
      rmSync(home, { recursive: true, force: true });
    }
  });
});

/** Null if the stream ends before the line does. */
async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string | null> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    const end = text.indexOf("\n");
    if (end >= 0) return text.slice(0, end);
  }
  return null;
}

function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

describe("the wire that can be broken", () => {
  test("passes megabytes unchanged, both ways, and the end of each", async () => {
    await using wire = await echoThroughProxy();
    const sent = Buffer.alloc(3_000_000, "0123456789");
    wire.client.end(sent);
    await wire.ended;
    expect(Buffer.concat(wire.got).equals(sent)).toBe(true);
    await eventually("the connection is forgotten", () => wire.proxy.connections === 0);
  });

  test("cut, resets what is open and refuses what is new, until it is restored", async () => {
    await using wire = await echoThroughProxy();
    await wire.exchange("before");
    wire.proxy.cut();
    await eventually("the client learns of it", () => wire.errors.length > 0);
    expect(wire.errors).toEqual(["ECONNRESET"]);
    expect(wire.proxy.connections).toBe(0);
    expect(await wire.tries("lost")).toBe(false);
    wire.proxy.restore();
    expect(await wire.tries("back")).toBe(true);
  });

  test("refusing, leaves alone what is open", async () => {
    await using wire = await echoThroughProxy();
    await wire.exchange("before");
    wire.proxy.refuse();
    await wire.exchange("after");
    expect(await wire.tries("new")).toBe(false);
  });

  test("frozen, takes connections and passes nothing; thawed, it has lost nothing", async () => {
    await using wire = await echoThroughProxy();
    await wire.exchange("before");
    wire.proxy.freeze();
    wire.client.write("during");
    const fresh = wire.tries("new");
    expect(await within(150, fresh)).toBe("nothing");
    expect(wire.text()).toBe("before");
    wire.proxy.thaw();
    expect(await fresh).toBe(true);
    await eventually("it arrives", () => wire.text() === "beforeduring");
  });

  test("slow, is late by what was said, each way, and keeps the order", async () => {
    await using wire = await echoThroughProxy();
    wire.proxy.delay(60);
    const began = performance.now();
    wire.client.write("one");
    await eventually("it arrives", () => wire.text() === "one");
    expect(performance.now() - began).toBeGreaterThanOrEqual(119);
    wire.client.write("two");
    wire.proxy.delay(0);
    await Bun.sleep(5);
    wire.client.write("three");
    await eventually("it arrives", () => wire.text().length >= 11);
    expect(wire.text()).toBe("onetwothree");
  });

  test("corrupt, changes just so many bytes of what the server says", async () => {
    await using wire = await echoThroughProxy();
    wire.proxy.corrupt(2);
    wire.client.write("abcd");
    await eventually("it arrives", () => Buffer.concat(wire.got).length === 4);
    expect([...Buffer.concat(wire.got)]).toEqual([0x61 ^ 0xff, 0x62 ^ 0xff, 0x63, 0x64]);
  });

  test("half closed, ends towards the client, and the server still hears", async () => {
    await using wire = await echoThroughProxy();
    await wire.exchange("before");
    wire.proxy.halfClose();
    await wire.ended;
    wire.client.write("after");
    await eventually("the server hears", () => wire.heard() === "beforeafter");
  });

  test("to a server that is not there, resets the client", async () => {
    await using nowhere = await startFaultProxy({ to: { host: "127.0.0.1", port: 1 } });
    const error = await new Promise<string>((resolve) => {
      net.connect(nowhere.port, "127.0.0.1").on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? ""));
    });
    expect(error).toBe("ECONNRESET");
  });

  test.skipIf(noPostgres !== "")(`carries PostgreSQL${noPostgres}`, async () => {
    await using proxy = await startFaultProxy({ to: postgres });
    expect(await query(postgres.urlOf("postgres", proxy.port), "SELECT 1 AS n")).toEqual([{ n: 1 }]);
    proxy.freeze();
    expect(await query(postgres.urlOf("postgres", proxy.port), "SELECT 1 AS n", 300).catch(() => "failed")).toBe("nothing");
  });
});

interface Echo extends AsyncDisposable {
  readonly proxy: Awaited<ReturnType<typeof startFaultProxy>>;
  readonly client: net.Socket;
  readonly got: readonly Buffer[];
  readonly errors: readonly string[];
  readonly ended: Promise<void>;
  text(): string;
  heard(): string;
  exchange(text: string): Promise<void>;
  /** Whether a new connection gets its echo. */
  tries(text: string): Promise<boolean>;
}

async function echoThroughProxy(): Promise<Echo> {
  const heard: Buffer[] = [];
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    socket.on("data", (bytes: Buffer) => heard.push(bytes));
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as net.AddressInfo;
  const proxy = await startFaultProxy({ to: { host: "127.0.0.1", port } });
  const client = net.connect({ port: proxy.port, host: "127.0.0.1", allowHalfOpen: true });
  const got: Buffer[] = [];
  const errors: string[] = [];
  client.on("data", (bytes: Buffer) => got.push(bytes));
  client.on("error", (error: NodeJS.ErrnoException) => errors.push(error.code ?? error.message));
  const ended = new Promise<void>((resolve) => client.once("end", resolve));
  await new Promise<void>((resolve) => client.once("connect", resolve));
  const text = (): string => Buffer.concat(got).toString();
  return {
    proxy,
    client,
    got,
    errors,
    ended,
    text,
    heard: () => Buffer.concat(heard).toString(),
    exchange: async (sent) => {
      client.write(sent);
      await eventually(`an echo of ${sent}`, () => text().endsWith(sent));
    },
    tries: (sent) =>
      new Promise((resolve) => {
        const socket = net.connect(proxy.port, "127.0.0.1");
        socket.on("error", () => resolve(false));
        socket.on("close", () => resolve(false));
        socket.once("data", (bytes: Buffer) => {
          resolve(bytes.toString() === sent);
          socket.destroy();
        });
        socket.write(sent);
      }),
    [Symbol.asyncDispose]: async () => {
      client.destroy();
      await proxy.close();
      server.close();
    },
  };
}
