// Needs: quiet, servers, long. Two PostgreSQL servers and a gateway, which mostly waits for them.
import { SQL } from "bun";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { masterKey } from "../support/replicas.ts";
import { PostgresDatabase } from "../../src/store/postgres/postgres.ts";
import type { Database } from "../../src/store/database.ts";
import { StandbyReads } from "../../src/store/postgres/standby-reads.ts";
import { openDatabase } from "../../src/store/open.ts";
import { sql, type Sql } from "../../src/store/sql.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPgBouncer } from "../support/servers/pgbouncer.ts";
import { startPostgresPair, type TestPostgres } from "../support/servers/postgres.ts";

setDefaultTimeout(120_000);

const pair = await startPostgresPair({ fsync: false });
const adminToken = "83c1d7f02b9a6e4835d0c25f1c07d2a94be8";
const folder = mkdtempSync(join(tmpdir(), "sluice-scale-"));
const tokenFile = join(folder, "token");
writeFileSync(tokenFile, adminToken, { mode: 0o600 });
const keys = Array.from({ length: 40 }, (_, at) => ({ name: `client-${at}`, key: `sk-scale-${String(at).padStart(24, "0")}` }));

const bouncer = "skipped" in pair ? pair : await startPgBouncer(pair.primary, 2);

afterAll(async () => {
  if (!("skipped" in bouncer)) await bouncer[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
  if ("skipped" in pair) return;
  await pair.standby.kill9();
  await Promise.all([pair.standby.stop(), pair.primary.stop()]);
});

describe.skipIf(remark(pair) !== "")(`a gateway with four connections to PostgreSQL, and a standby${remark(pair)}`, () => {
  let upstream: Chaos;
  let gateway: Gateway;
  let database: string;

  beforeAll(async () => {
    const { primary, standby } = present(pair);
    database = new URL(await primary.freshDatabase()).pathname.slice(1);
    upstream = await startChaos({ name: "main" });
    gateway = await startGateway({
      config: {
        admin: "127.0.0.1:0",
        store: primary.urlOf(database),
        store_connections: 4,
        read_store: standby.urlOf(database),
        keys,
        channels: [{ name: "main", base_url: upstream.url, models: "*" }],
        server: { linger: "0ms" },
      },
      env: { SLUICE_MASTER_KEY: masterKey, ADMIN_TOKEN_FILE: tokenFile },
    });
  });

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await upstream?.[Symbol.asyncDispose]();
  });

  async function asked(path: string): Promise<{ readonly status: number; readonly json: Readonly<Record<string, unknown>> }> {
    const response = await fetch(`${gateway.adminUrl}/admin/api${path}`, { headers: { authorization: `Bearer ${adminToken}` } });
    return { status: response.status, json: (await response.json()) as Readonly<Record<string, unknown>> };
  }

  const callsShown = async (): Promise<unknown> => ((await asked("/usage")).json["rows"] as readonly { calls: number }[])[0]?.calls;

  /** What the gateway's connections to a server did last. */
  async function statements({ port }: TestPostgres): Promise<readonly string[]> {
    const client = new SQL({ url: present(pair).primary.urlOf("postgres", port), max: 1 });
    try {
      const rows = (await client`select query from pg_stat_activity where application_name = 'sluice'`) as readonly { query: string }[];
      return rows.map(({ query }) => query);
    } finally {
      await client.close({ timeout: 0 });
    }
  }

  /** A standby that was slow to answer is asked again after ten seconds. */
  async function answeredBy(server: TestPostgres, calls: number): Promise<void> {
    await eventually(
      "the query went to this server",
      async () => {
        expect(await callsShown()).toBe(calls);
        return (await statements(server)).some((query) => /\bfrom (?:usage|owner)_(?:days|hours)\b/.test(query));
      },
      30_000,
    );
  }

  test("never has more than those four, nor more than two to the standby, however many calls and queries there are", async () => {
    const { primary, standby } = present(pair);
    let done = false;
    const mostOf = async (server: TestPostgres): Promise<number> => {
      let most = 0;
      for (; !done; await Bun.sleep(20)) most = Math.max(most, (await statements(server)).length);
      return most;
    };
    const watching = Promise.all([mostOf(primary), mostOf(standby)]);
    try {
      // Besides these calls, which need no store: those that do, and may find it busy.
      const others = keys.flatMap(({ key }) => [
        chat(gateway, {}, { key: `${key}-unknown` }),
        asked("/audit"),
        asked("/keys"),
        asked("/usage"),
      ]);
      const replies = await Promise.all(keys.map(async ({ key }) => chat(gateway, {}, { key })));
      await Promise.all(others);
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
      await eventually("all receipts are stored", async () => (await callsShown()) === keys.length);
    } finally {
      done = true;
      await watching;
    }
    const [ofPrimary, ofStandby] = await watching;
    expect(ofPrimary).toBeWithin(2, 5);
    // A quarter of four for queries, and one to see whether it answers.
    expect(ofStandby).toBeWithin(1, 3);
  });

  test("answers queries for usage from the standby, and from the primary while the standby is gone", async () => {
    const { primary, standby } = present(pair);
    expect(await callsShown()).toBe(keys.length);
    await answeredBy(standby, keys.length);
    const reply = await chat(gateway, {}, { key: keys[0]!.key });
    await eventually("the call is found, wherever it is first", async () => (await asked(`/requests/${reply.requestId}`)).status === 200);
    // Commits wait for the standby. The primary must not wait for one that is gone.
    const client = new SQL({ url: primary.url, max: 1 });
    await client.unsafe("alter system set synchronous_standby_names = ''");
    await client`select pg_reload_conf()`;
    await client.close({ timeout: 0 });
    await standby.kill9();
    expect(await callsShown()).toBe(keys.length + 1);
    await answeredBy(primary, keys.length + 1);
    await standby.start();
  });
});

describe.skipIf(remark(pair) !== "")(`a standby that answers, but not for this store${remark(pair)}`, () => {
  interface Reads extends AsyncDisposable {
    readonly primary: PostgresDatabase;
    readonly standby: PostgresDatabase;
    readonly both: Pick<Database, "all">;
    /** How many calls are shown of a day. */
    readonly shown: () => Promise<number | undefined>;
    readonly notices: readonly (string | null)[];
    /** Ten seconds later, when a standby that was lost is asked again. */
    readonly later: () => void;
  }

  async function reads(store: string, readStore: string, lagMsMax: number): Promise<Reads> {
    const [primary, standby, probe] = [store, readStore, readStore].map((url) => new PostgresDatabase(url));
    const notices: (string | null)[] = [];
    let nowMs = 0;
    const both = new StandbyReads({
      standby: standby!,
      probe: probe!,
      primary: primary!,
      nowMs: () => nowMs,
      notice: (reason) => void notices.push(reason),
      lagMsMax,
    });
    return {
      primary: primary!,
      standby: standby!,
      both,
      shown: async () =>
        (await both.all<{ value: string }>(sql`select value from settings where name = 'shown'`)).map(({ value }) => Number(value))[0],
      notices,
      later: () => void (nowMs += 60_000),
      [Symbol.asyncDispose]: async () => {
        await both.close();
        await primary!.close();
      },
    };
  }

  async function show(database: Database, name: string, value: string): Promise<void> {
    await database.run(
      sql`insert into settings (name, value) values (${name}, ${value}) on conflict (name) do update set value = excluded.value`,
    );
  }

  test("is not asked while it replays nothing, and again when it does", async () => {
    const { primary, standby } = present(pair);
    const store = await primary.freshDatabase();
    const opened = await openDatabase({ store, dataDir: "" });
    await opened.close();
    await using both = await reads(store, standby.urlOf(new URL(store).pathname.slice(1)), 1_000);
    await show(both.primary, "shown", "1");
    const shown = sql`select 1 from settings where name = 'shown'`;
    await eventually("the standby has it", async () => (await both.standby.all(shown).catch(() => [])).length === 1, 30_000);
    expect([await both.shown(), both.notices]).toEqual([1, []]);
    await both.standby.all(sql`select pg_wal_replay_pause()`);
    try {
      await show(both.primary, "shown", "2");
      await eventually("the primary is asked", async () => {
        both.later();
        return (await both.shown()) === 2 && both.notices.length > 0;
      });
      expect(both.notices).toEqual([expect.stringContaining("behind")]);
    } finally {
      await both.standby.all(sql`select pg_wal_replay_resume()`);
    }
    await eventually("the standby is asked again", async () => {
      both.later();
      return (await both.shown()) === 2 && both.notices.at(-1) === null;
    });
    // An idle primary does not make it one that is behind.
    const idle = sql`select 1 where now() - pg_last_xact_replay_timestamp() > interval '2 seconds'`;
    await eventually("nothing has happened for longer than it may be behind", async () => (await both.standby.all(idle)).length === 1);
    both.later();
    expect([await both.shown(), both.notices.length]).toEqual([2, 2]);
  });

  test("that is always behind is never asked, and is not blamed for what fails on the primary", async () => {
    const { primary, standby } = present(pair);
    const store = await primary.freshDatabase();
    await (await openDatabase({ store, dataDir: "" })).close();
    await using reading = await reads(store, standby.urlOf(new URL(store).pathname.slice(1)), 1_000);
    await show(reading.primary, "shown", "0");
    const replayed = async (): Promise<number> => {
      const rows = await reading.standby.all<{ value: string }>(sql`select value from settings where name = 'shown'`).catch(() => []);
      return Number(rows[0]?.value ?? -1);
    };
    await eventually("the standby has it", async () => (await replayed()) === 0, 30_000);
    const delay = async (to: Sql): Promise<void> => {
      await reading.standby.run(sql`alter system set recovery_min_apply_delay = ${to}`);
      await reading.standby.all(sql`select pg_reload_conf()`);
    };
    await delay(sql`'3s'`);
    try {
      let written = 0;
      /** What is read of what was just written, at the time of the next check. */
      const isCurrent = async (): Promise<boolean> => {
        written += 1;
        await show(reading.primary, "shown", String(written));
        reading.later();
        return (await reading.shown()) === written;
      };
      await eventually("it is found to be behind", async () => (await isCurrent()) && (await replayed()) < written);
      await expect(reading.both.all(sql`select * from nowhere`)).rejects.toThrow("nowhere");
      expect(reading.notices).toEqual([]);
      // Until it has twice replayed what it lacked.
      for (let times = 0; times < 2; times += 1) {
        const lacked = written;
        await eventually("it has replayed what it lacked", async () => {
          const startedMs = performance.now();
          const current = await isCurrent();
          // What does not answer within two seconds, as on a busy machine, is not known to be behind.
          if (performance.now() - startedMs < 2_000) expect(current).toBe(true);
          return (await replayed()) > lacked;
        });
      }
      expect(reading.notices[0]).toContain("behind");
    } finally {
      await delay(sql`'0'`);
    }
  });

  test("is not asked if it belongs to another store, and is if it is not known to", async () => {
    const { primary } = present(pair);
    const [store, other] = [await primary.freshDatabase(), await primary.freshDatabase()];
    for (const one of [store, other]) await (await openDatabase({ store: one, dataDir: "" })).close();
    await using both = await reads(store, other, 60_000);
    await show(both.primary, "shown", "1");
    await show(both.standby, "shown", "9");
    await show(both.primary, "master_key", "this");
    expect([await both.shown(), both.notices]).toEqual([9, []]);
    await show(both.standby, "master_key", "another");
    both.later();
    expect([await both.shown(), both.notices]).toEqual([1, [expect.stringContaining("another store")]]);
    await show(both.standby, "master_key", "this");
    both.later();
    expect([await both.shown(), both.notices.at(-1)]).toEqual([9, null]);
  });
});

describe.skipIf(remark(bouncer) !== "")(`PgBouncer in transaction mode, with two connections to the server${remark(bouncer)}`, () => {
  test("serves a gateway that has twelve, from the first migration to the last receipt", async () => {
    const { primary } = present(pair);
    const database = new URL(await primary.freshDatabase()).pathname.slice(1);
    await using upstream = await startChaos({ name: "main" });
    await using gateway = await startGateway({
      config: {
        admin: "127.0.0.1:0",
        store: `${present(bouncer).urlOf(database)}?pooling=transaction`,
        keys: keys.map((key) => ({ ...key, limits: { concurrency: 5, rpm: 1_000, budget_usd: 1, budget_period: "day" } })),
        prices: [{ model: "*", call: 0.001 }],
        channels: [{ name: "main", base_url: upstream.url, models: "*" }],
        server: { linger: "0ms" },
      },
      env: { SLUICE_MASTER_KEY: masterKey, ADMIN_TOKEN_FILE: tokenFile },
    });
    const admin = async (path: string): Promise<Response> =>
      fetch(`${gateway.adminUrl}/admin/api${path}`, { headers: { authorization: `Bearer ${adminToken}` } });
    const answers = async (what: string, ask: () => Promise<{ readonly status: number }>): Promise<void> =>
      // On a busy machine the store may take too long for a call, which is then rejected and not counted.
      eventually(what, async () => (await ask()).status === 200, 60_000);
    await Promise.all(
      keys.map(async ({ key }) => {
        for (const round of [1, 2]) await answers(`call ${round} of a key`, async () => chat(gateway, {}, { key }));
        for (const path of ["/usage", "/audit"]) await answers(path, async () => admin(path));
      }),
    );
    await eventually("all receipts are stored", async () => {
      const { rows } = (await (await admin("/usage")).json()) as { readonly rows: readonly { calls: number; cost_usd: number }[] };
      return rows[0]?.calls === 2 * keys.length;
    });
    const { rows } = (await (await admin("/usage?by=key")).json()) as { readonly rows: readonly { calls: number; cost_usd: number }[] };
    expect(rows.map(({ calls, cost_usd }) => [calls, cost_usd])).toEqual(keys.map(() => [2, 0.002]));
  });

  test.each([
    ["uses the last connection first", {}],
    ["uses its connections in turn", { server_round_robin: 1 }],
    ["has a single connection", { default_pool_size: 1 }],
  ])("is refused at the start if it %s and the store's address does not say so", async (_, settings) => {
    const { primary } = present(pair);
    const database = new URL(await primary.freshDatabase()).pathname.slice(1);
    await using pooler = present(await startPgBouncer(primary, 2, settings));
    const store = pooler.urlOf(database);
    for (let round = 0; round < 5; round += 1) {
      // As many connections as it has are open, or none yet.
      await expect(openDatabase({ store, dataDir: "" })).rejects.toThrow("pooling=transaction");
      const named = await openDatabase({ store: `${store}?pooling=transaction`, dataDir: "", connectionsMax: 3 });
      await Promise.all(Array.from({ length: 3 }, async () => named.all(sql`select pg_sleep(0.01)`)));
      await named.close();
    }
  });

  test("is no obstacle if it pools sessions, and is not taken for one that pools transactions", async () => {
    const { primary } = present(pair);
    const database = new URL(await primary.freshDatabase()).pathname.slice(1);
    await using pooler = present(await startPgBouncer(primary, 10, { pool_mode: "session" }));
    for (let round = 0; round < 3; round += 1) {
      const opened = await openDatabase({ store: pooler.urlOf(database), dataDir: "" });
      expect(await opened.all(sql`select 1 as one`)).toEqual([{ one: 1 }]);
      await opened.close();
    }
  });

  test("is named, where the store's address does not say so", async () => {
    const database = new PostgresDatabase(present(bouncer).urlOf("postgres"), { connectionsMax: 6 });
    const answers = await Promise.allSettled(Array.from({ length: 12 }, async () => database.all(sql`select pg_sleep(0.02)`)));
    await database.close();
    const reasons = answers.flatMap((answer) => (answer.status === "rejected" ? [String(answer.reason)] : []));
    expect(reasons.filter((reason) => reason.includes("pooling=transaction"))).not.toEqual([]);
  });
});
