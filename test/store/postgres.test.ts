// Needs: quiet, servers. It mostly waits for a PostgreSQL that does not answer, for tenths of a second and more.
import { SQL } from "bun";
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StorageError } from "../../src/gateway/storage.ts";
import { postgresDump } from "../../src/store/backup/postgres-dump.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { PostgresDatabase } from "../../src/store/postgres/postgres.ts";
import { Sql, sql } from "../../src/store/sql.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { engines, freshPostgresUrl, migratedPostgresUrl, postgresServer } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { findPostgres } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { slowed } from "../support/slowed.ts";

const skipped = engines.find(({ name }) => name === "postgres")!.skipped;
/** Where the tools of the same version are. */
const binaries = findPostgres();
const folders = "skipped" in binaries ? [] : [binaries.path, `/usr/lib/postgresql/${binaries.version.split(".")[0]}/bin`];
const toolsFolder = folders.find((folder) => existsSync(join(folder, "pg_restore"))) ?? null;
const rejections: unknown[] = [];
process.on("unhandledRejection", (error) => void rejections.push(error));
afterEach(() => expect(rejections.splice(0)).toEqual([]));

describe.skipIf(skipped !== null)(`postgres that fails${skipped === null ? "" : ` (skipped: ${skipped})`}`, () => {
  test("a server that hangs costs each statement at most its deadline, and is used again when it recovers", async () => {
    const server = await postgresServer();
    const database = await opened({ statementMs: 300 });
    await Promise.all(Array.from({ length: 8 }, async () => database.all(sql`select pg_sleep(0.01)`)));
    await server.pause();
    try {
      // More than there are connections: some wait for a place, some for an answer, some for a new connection.
      const asked = Array.from({ length: 20 }, async () => timed(database.all(sql`select 1`)));
      for (const { kind, tookMs } of await Promise.all(asked)) expect([kind, tookMs < slowed(900)]).toEqual(["unavailable", true]);
      const { kind, tookMs } = await timed(database.transaction(async (inner) => inner.all(sql`select 1`)));
      expect([kind, tookMs < slowed(1_500)]).toEqual(["unavailable", true]);
    } finally {
      server.resume();
    }
    await eventually("it answers again", async () => (await timed(database.all(sql`select 1`))).kind === "none");
    await database.close();
  });

  test("a server that hangs during a transaction leaves nothing of it behind", async () => {
    const server = await postgresServer();
    const database = await opened({ statementMs: 300 });
    const cut = database.transaction(async (inner) => {
      await inner.run(sql`update revision set value = 5`);
      await server.pause();
      await inner.run(sql`update revision set value = 6`);
    });
    expect((await timed(cut)).kind).toBe("unavailable");
    server.resume();
    await eventually("the row is free and as it was", async () => {
      const changed = await database.run(sql`update revision set value = value + 1 where value = 0`).catch(() => 0);
      return changed === 1;
    });
    await database.close();
  });

  test("a killed server is noticed at once and used again as soon as it is back", async () => {
    const server = await postgresServer();
    const database = await opened();
    await database.run(sql`update revision set value = 1`);
    const running = timed(database.all(sql`select pg_sleep(1)`));
    await server.kill9();
    expect((await running).kind).toBe("unavailable");
    const refused = await timed(database.all(sql`select 1`));
    expect([refused.kind, refused.tookMs < slowed(500)]).toEqual(["unavailable", true]);
    await server.start();
    await eventually("it answers again", async () => (await timed(database.all(sql`select 1`))).kind === "none");
    expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 1 }]);
    await database.close();
  });

  test("a connection that breaks while idle costs nothing, and one that breaks in a transaction is not replaced in it", async () => {
    const url = await freshPostgresUrl();
    const database = await openDatabase({ store: url, dataDir: "" });
    const other = new SQL({ url, max: 1 });
    const cutAll = async (): Promise<unknown> =>
      other.unsafe(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice' and datname = current_database()",
      );
    await Promise.all(Array.from({ length: 4 }, async () => database.all(sql`select pg_sleep(0.01)`)));
    await cutAll();
    await eventually(
      "they are gone",
      async () =>
        (await other.unsafe("select 1 from pg_stat_activity where application_name = 'sluice' and datname = current_database()")).length ===
        0,
    );
    // The goodbyes of the server and that answer may have come together: with the next answer, all of them have been read.
    await other.unsafe("select 1");
    for (let at = 0; at < 4; at += 1) expect(await database.run(sql`update revision set value = value + 1`)).toBe(1);

    const cut = database.transaction(async (inner) => {
      await inner.run(sql`update revision set value = 100`);
      await cutAll();
      await inner.run(sql`update revision set value = value + 1`).catch(() => {});
      await inner.run(sql`insert into settings (name, value) values ('alone', 'x')`);
    });
    expect((await timed(cut)).kind).toBe("unavailable");
    expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 4 }]);
    expect(await database.all<object>(sql`select * from settings`)).toEqual([]);
    await other.close();
    await database.close();
  });

  test("connections that hang are discarded together when the first of them is noticed", async () => {
    const server = await postgresServer();
    const frozen = new Set<Socket>();
    const through = new Set<Socket>();
    const proxy = createServer((client) => {
      const upstream = connect(server.port, server.host);
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        through.add(from);
        from.on("data", (bytes) => void (frozen.has(client) || to.write(bytes)));
        from.on("error", () => {});
        from.on("close", () => to.destroy());
      }
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => void (proxy.listening ? resolve(null) : proxy.once("listening", resolve)));
    const { port } = proxy.address() as { port: number };
    const database = new PostgresDatabase((await freshPostgresUrl()).replace(/:\d+\//, `:${port}/`), { statementMs: 300 });
    await Promise.all(Array.from({ length: 4 }, async () => database.all(sql`select pg_sleep(0.05)`)));
    for (const socket of through) frozen.add(socket);
    const kinds: string[] = [];
    for (let at = 0; at < 6; at += 1) kinds.push((await timed(database.all(sql`select 1`))).kind);
    expect(kinds).toEqual(["unavailable", "none", "none", "none", "none", "none"]);
    await database.close();
    for (const socket of through) socket.destroy();
    proxy.close();
  });

  test("a slow statement is cancelled on the server too, and its connection is reused", async () => {
    const database = await opened({ statementMs: 400, connectionsMax: 1 });
    const pid = async (): Promise<object[]> => database.all<object>(sql`select pg_backend_pid() as pid`);
    const before = await pid();
    const slow = await timed(database.all(sql`select pg_sleep(5)`));
    expect([slow.kind, slow.tookMs < slowed(700)]).toEqual(["unavailable", true]);
    expect(await pid()).toEqual(before);
    await database.close();
  });

  test("an address without a server, or with another one, is reported in time and in plain words", async () => {
    const sockets = new Set<Socket>();
    const mute = createServer((socket) => void sockets.add(socket)).listen(0, "127.0.0.1");
    const babble = createServer((socket) => void socket.on("error", () => {}).end("HTTP/1.1 400 Bad Request\r\n\r\n")).listen(
      0,
      "127.0.0.1",
    );
    await Promise.all(
      [mute, babble].map(async (server) => (server.listening ? null : new Promise((resolve) => server.once("listening", resolve)))),
    );
    const port = (server: typeof mute): number => (server.address() as { port: number }).port;
    const addresses = [
      "postgres://me:hidden@127.0.0.1:1/db",
      `postgres://me:hidden@127.0.0.1:${port(mute)}/db`,
      `postgres://me:hidden@127.0.0.1:${port(babble)}/db`,
      "postgres://me:hidden@no-such-host.invalid/db",
      "postgres://me:hidden@127.0.0.1:notaport/db",
      (await freshPostgresUrl()).replace(/[^/]+$/, "no_such_database"),
    ];
    for (const address of addresses) {
      const { kind, message, tookMs } = await timed(openDatabase({ store: address, dataDir: "", statementMs: 400 }));
      expect([address, kind, tookMs < slowed(1_200)]).toEqual([address, "unavailable", true]);
      expect(message).not.toContain("hidden");
    }
    for (const socket of sockets) socket.destroy();
    mute.close();
    babble.close();
  });

  test("deadlocks are resolved by a retry", async () => {
    // PostgreSQL looks for them after a second, which leaves one of the two that a statement has by default: too few on a busy machine.
    const database = await opened({ statementMs: 20_000 });
    await database.run(sql`insert into settings (name, value) values ('a', '0'), ('b', '0')`);
    let runs = 0;
    let holders = 0;
    const bothHold = Promise.withResolvers<void>();
    const crossed = async (first: string, second: string): Promise<void> =>
      database.transaction(async (inner) => {
        runs += 1;
        await inner.run(sql`update settings set value = value || 'x' where name = ${first}`);
        holders += 1;
        if (holders === 2) bothHold.resolve();
        await bothHold.promise;
        await inner.run(sql`update settings set value = value || 'x' where name = ${second}`);
      });
    await Promise.all([crossed("a", "b"), crossed("b", "a")]);
    expect(runs).toBeGreaterThan(2);
    expect(await database.all<object>(sql`select name, value from settings order by name`)).toEqual([
      { name: "a", value: "0xx" },
      { name: "b", value: "0xx" },
    ]);
    await database.close();
  }, 120_000);

  test("serialization failures are retried a few times, and not forever", async () => {
    const database = await opened();
    let runs = 0;
    const failing = (times: number): Promise<number> =>
      database.transaction(async (inner) => {
        runs += 1;
        // What PostgreSQL itself says, made by a statement of its own.
        if (runs <= times) await inner.run(sql`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`);
        return runs;
      });
    expect(await failing(3)).toBe(4);
    runs = 0;
    const masked = database.transaction(async (inner) => {
      runs += 1;
      if (runs > 1) return runs;
      return inner.run(sql`do $$ begin raise exception 'conflict' using errcode = '40001'; end $$`).catch(() => {
        throw new Error("what the work made of it");
      });
    });
    expect(await masked).toBe(2);
    runs = 0;
    expect((await timed(failing(1_000))).kind).toBe("unavailable");
    expect(runs).toBeWithin(2, 20);
    await database.close();
  });

  test("a server without free connections is retried until the deadline", async () => {
    const small = await startPostgres({ settings: { max_connections: "6", superuser_reserved_connections: "0" } });
    if ("skipped" in small) throw new Error(small.skipped);
    try {
      const url = small.url;
      const hogs = Array.from({ length: 6 }, () => new SQL({ url, max: 1 }));
      const first = await hogs[0]!.reserve();
      // The connection that found the server ready may still be ending there. Bun's client waits for ever where the server has none left.
      await eventually("no other connection is left", async () => (await connectionsOf(first)) === 1, 30_000);
      const held = [first, ...(await Promise.all(hogs.slice(1).map(async (hog) => hog.reserve())))];
      const database = new PostgresDatabase(url, { statementMs: 1_000 });
      const never = await timed(database.all(sql`select 1`));
      expect([never.kind, never.tookMs < slowed(1_600)]).toEqual(["unavailable", true]);
      expect(never.message).toContain("max_connections");
      const later = database.all<object>(sql`select 1 as one`);
      await new Promise((resolve) => setTimeout(resolve, 100));
      for (const one of held) await one.release();
      for (const hog of hogs) await hog.close({ timeout: 0 });
      expect(await later).toEqual([{ one: 1 }]);
      await database.close();
    } finally {
      await small.stop();
    }
  }, 120_000);

  test.skipIf(toolsFolder === null)(
    "is backed up and restored by the commands that are shown, to what it was, also after days were added (skipped without pg_dump)",
    async () => {
      const store = await migratedPostgresUrl();
      const database = new PostgresDatabase(store);
      await database.run(sql`update revision set value = 41`);
      const folder = mkdtempSync(join(tmpdir(), "sluice-dump-"));
      const { backup, restore } = postgresDump(store);
      const run = async (command: string): Promise<string> => {
        const env = { ...process.env, PATH: `${toolsFolder}:${process.env["PATH"]}` };
        const child = Bun.spawn(["sh", "-c", command], { cwd: folder, env, stdout: "ignore", stderr: "pipe" });
        const said = await new Response(child.stderr).text();
        return (await child.exited) === 0 ? "done" : said;
      };
      try {
        expect(await run(backup)).toBe("done");
        await database.run(sql`update revision set value = 42`);
        // Receipts of a later day have a partition of their own, which the dump does not know.
        await database.transaction(async (inside) => addReceipts(inside, [sampleReceipt({ startedMs: Date.now() + 3 * 86_400_000 })]));
        expect(await run(restore)).toBe("done");
        expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 41 }]);
        expect(await database.all<object>(sql`select count(*) as n from receipts`)).toEqual([{ n: 0 }]);
        // It is whole: a gateway can use it.
        await (await openDatabase({ store, dataDir: "" })).close();
      } finally {
        await database.close();
        rmSync(folder, { recursive: true });
      }
    },
    120_000,
  );

  test("at most the allowed connections are opened, however many are requested", async () => {
    const url = await freshPostgresUrl();
    const database = new PostgresDatabase(url, { connectionsMax: 3 });
    const counts = await Promise.all(
      Array.from({ length: 30 }, async () =>
        database.all<{ n: number }>(
          sql`select count(*) as n, pg_sleep(0.01) from pg_stat_activity where application_name = 'sluice' and datname = current_database()`,
        ),
      ),
    );
    expect(Math.max(...counts.map(([row]) => row!.n))).toBe(3);
    await database.close();
  });

  test("a process looks for a pooler once: who opens the same store after that uses no connection for it", async () => {
    const { host, port } = await postgresServer();
    let connections = 0;
    const proxy = createServer((client) => {
      connections += 1;
      const upstream = connect(port, host);
      client.on("error", () => upstream.destroy()).on("close", () => upstream.destroy());
      upstream.on("error", () => client.destroy());
      client.pipe(upstream).pipe(client);
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => void (proxy.listening ? resolve(null) : proxy.once("listening", resolve)));
    const store = (await migratedPostgresUrl()).replace(/:\d+\//, `:${(proxy.address() as { port: number }).port}/`);
    const openings = async (poolerChecked: boolean): Promise<number> => {
      connections = 0;
      await (await openDatabase({ store, dataDir: "", connectionsMax: 1, poolerChecked })).close();
      return connections;
    };
    expect([await openings(false), await openings(true)]).toEqual([3, 1]);
    proxy.close();
  });

  test("the server does not accumulate all statements that it was ever sent", async () => {
    const database = new PostgresDatabase(await freshPostgresUrl(), { connectionsMax: 1 });
    for (let at = 0; at < 700; at += 1) await database.all(new Sql([`select ${at}, `, "::bigint"], [1]));
    const [row] = await database.all<{ n: number }>(sql`select count(*) as n from pg_prepared_statements`);
    expect(row!.n).toBeLessThan(600);
    await database.close();
  });

  test("a column that is added meanwhile does not break prepared statements", async () => {
    const url = await freshPostgresUrl();
    const [database, other] = [await openDatabase({ store: url, dataDir: "", connectionsMax: 1 }), new PostgresDatabase(url)];
    const look = async (): Promise<object[]> => database.all<object>(sql`select * from settings where name = ${"a"}`);
    await database.run(sql`insert into settings (name, value) values ('a', 'b')`);
    for (let at = 0; at < 7; at += 1) expect(await look()).toEqual([{ name: "a", value: "b" }]);
    await other.run(sql`alter table settings add column extra bigint not null default 7`);
    expect(await look()).toEqual([{ name: "a", value: "b", extra: 7 }]);
    expect(await database.transaction(async (inner) => inner.all<object>(sql`select * from settings where name = ${"a"}`))).toEqual([
      { name: "a", value: "b", extra: 7 },
    ]);
    await other.close();
    await database.close();
  });
});

async function opened(options: { readonly statementMs?: number; readonly connectionsMax?: number } = {}): Promise<Database> {
  return openDatabase({ store: await freshPostgresUrl(), dataDir: "", ...options });
}

async function timed(promise: Promise<unknown>): Promise<{ readonly kind: string; readonly message: string; readonly tookMs: number }> {
  const startedMs = performance.now();
  const [kind, message] = await promise.then(
    () => ["none", ""] as const,
    (error: unknown) => (error instanceof StorageError ? ([error.kind, error.message] as const) : (["other", String(error)] as const)),
  );
  return { kind, message, tookMs: performance.now() - startedMs };
}

async function connectionsOf(connection: SQL): Promise<number> {
  const [row] = (await connection`select count(*)::int as n from pg_stat_activity where backend_type = 'client backend'`) as {
    n: number;
  }[];
  return row!.n;
}
