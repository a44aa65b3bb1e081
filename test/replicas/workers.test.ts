// Needs: quiet, servers. It mostly waits for workers to start, and for what one of them knows to reach the others.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Workers } from "../../src/cli/process/workers.ts";
import { wholeLines } from "../../src/cli/whole-lines.ts";
import type { LiveFrameAnswer } from "../../src/console/pages/live/live-rows.ts";
import { SseReader } from "../../src/dialects/readers/sse.ts";
import { openStore, type Store } from "../../src/app/durable.ts";
import { sql } from "../../src/store/sql.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat, openChat, type ChatCall } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { newGroup } from "../support/groups.ts";
import { spentNanosOf } from "../support/keys.ts";
import { product } from "../support/product.ts";
import {
  ben,
  count,
  degraded,
  makeCompany,
  makeKey,
  masterKey,
  mostAtOnce,
  offer,
  opened,
  tally,
  type MadeKey,
  type TimedReply,
} from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const workers = 3;
/** A call goes on without the store that has waited for it for so long. */
const stalledMs = 250;
const redis = await startRedis();
const postgres = await startPostgres({ fsync: false });

afterAll(async () => {
  if (!("skipped" in redis)) await redis.stop();
  if (!("skipped" in postgres)) await postgres.stop();
});

function started(gateway: Gateway): readonly { readonly worker: number; readonly pid: number }[] {
  return gateway.logs
    .filter(({ event }) => event === "worker_started")
    .map(({ worker, pid }) => ({ worker: Number(worker), pid: Number(pid) }));
}

function pidOf(gateway: Gateway, worker: number): number {
  return started(gateway).findLast((one) => one.worker === worker)!.pid;
}

function times(gateway: Gateway, event: string): number {
  return gateway.logs.filter((line) => line["event"] === event).length;
}

/** Whether all of them reach what they share: so many connections come to each of them. */
async function allShare(gateway: Gateway): Promise<boolean> {
  return (await Promise.all(Array.from({ length: 4 * workers }, () => degraded(gateway)))).flat().length === 0;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("several processes behind one port", () => {
  let upstream: Chaos;
  let gateway: Gateway;
  let store: Store;
  const directory = mkdtempSync(join(tmpdir(), "sluice-workers-"));
  const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";
  const config = () => ({
    admin: "127.0.0.1:0",
    prices: [{ model: "*", call: 0.01 }],
    channels: [{ name: "a", base_url: upstream.url, models: "*" }],
    server: { linger: "0ms" },
  });

  beforeAll(async () => {
    upstream = await startChaos();
    const file = join(directory, "admin-token");
    writeFileSync(file, adminToken, { mode: 0o600 });
    gateway = await startGateway({
      directory,
      config: config(),
      args: ["--workers", String(workers)],
      env: { ADMIN_TOKEN_FILE: file },
    });
    await eventually("all of them listen", () => times(gateway, "listening") === workers, 10_000);
    store = await openStore({ store: "sqlite", dataDir: join(directory, "data") }, null, false);
  });

  afterAll(async () => {
    await store?.database.close();
    await gateway?.kill();
    await upstream?.close();
    rmSync(directory, { recursive: true, force: true });
  });

  async function calls({ id }: MadeKey): Promise<number> {
    const query = { by: [], sinceMs: null, untilMs: null, keyId: id, model: null, channel: null };
    return (await store.storage.receipts.usage(query)).reduce((sum, row) => sum + row.calls, 0);
  }

  test("listen at the same address, and one of them greets and makes the first key", async () => {
    expect(new Set(gateway.logs.filter(({ event }) => event === "listening").map(({ url }) => url)).size).toBe(1);
    expect(gateway.text.match(/Your client key/g)?.length).toBe(1);
    const token = /sk-gw_\w+/.exec(gateway.text)![0];
    const before = upstream.ledger.connectionsAccepted;
    const replies = await Promise.all(Array.from({ length: 30 }, () => chat(gateway, { x_first_ms: 50 }, { key: token })));
    expect(tally(replies)).toEqual({ "200": 30 });
    expect(upstream.ledger.connectionsAccepted - before).toBeGreaterThan(0);
    expect(started(gateway).length).toBe(workers);
  });

  test("keep a limit, the number of calls at once and a budget together", async () => {
    let rates: readonly TimedReply[] = [];
    let isStalled = true;
    for (let round = 0; isStalled && round < 3; round += 1) {
      await eventually("all of them reach the store", () => allShare(gateway), 20_000);
      const rated = await makeKey(store, { requests: 100 });
      rates = await offer([gateway], rated, { clients: 12, forMs: 4_000, enough: (so) => count(so, 429) > 400 });
      isStalled = rates.some(({ tookMs }) => tookMs >= stalledMs);
    }
    // Several processes keep a rate to five in a hundred; money and places they keep exactly. Where the disk or the processor kept one
    // waiting for the store, it went on without it: then each of the others may grant its part besides.
    expect(count(rates, 200)).toBeLessThanOrEqual(isStalled ? 100 + (workers - 1) * 34 : 105);
    expect(count(rates, 200)).toBeGreaterThanOrEqual(95);

    const placed = await makeKey(store, { concurrency: 4 });
    const before = upstream.ledger.chats.length;
    let ended = 0;
    // Nobody's place is free again before all have asked.
    upstream.behaviour = "fault:held";
    const streams = Promise.all(
      Array.from({ length: 16 }, async () => (await opened(gateway, placed, {})).reply.finally(() => (ended += 1))),
    );
    await eventually("the others are refused", () => ended >= 12, 20_000).finally(() => {
      upstream.release();
      upstream.behaviour = null;
    });
    expect(tally(await streams)).toEqual({ "200": 4, "429 concurrency_limit": 12 });
    expect(mostAtOnce(upstream.ledger.chats.slice(before))).toBe(4);

    const poor = await makeKey(store, { budget: { nanos: 300_000_000, period: "total" } });
    const spent = await offer([gateway], poor, { clients: 20, forMs: 20_000, enough: (so) => count(so, 429) > 200 });
    expect(count(spent, 200)).toBe(30);
    await eventually("every call is in the sums", async () => (await calls(poor)) === count(spent, 200));
  });

  test("keep the calls at once and the budgets of an organisation and its teams together", async () => {
    const budget = (nanos: number) => ({ nanos, period: "total" }) as const;
    const exactly = { "200": 4, "429 concurrency_limit": 12 };
    let name = "";
    let keys: readonly MadeKey[] = [];
    let first: Readonly<Record<string, number>> = {};
    let before = 0;
    let isStalled = true;
    for (let round = 0; isStalled && round < 5; round += 1) {
      await eventually("all of them reach the store", () => allShare(gateway), 20_000);
      name = `company${round}`;
      keys = await makeCompany(store, name, { concurrency: 4, budget: budget(300_000_000) }, { budget: budget(200_000_000) });
      before = upstream.ledger.chats.length;
      let ended = 0;
      const beganMs = performance.now();
      // Nobody's place is free again before all have asked.
      upstream.behaviour = "fault:held";
      const held = Promise.all(
        Array.from({ length: 16 }, async (_, at) => (await opened(gateway, keys[at % 2]!, {})).reply.finally(() => (ended += 1))),
      );
      await eventually("all have asked", () => ended + upstream.ledger.chats.length - before >= 16, 20_000).finally(() => {
        isStalled = performance.now() - beganMs >= stalledMs;
        upstream.release();
        upstream.behaviour = null;
      });
      first = tally(await held);
      isStalled &&= first["200"] !== 4;
    }
    expect(first).toEqual(exactly);

    const refused = (so: readonly TimedReply[]): number => so.filter(({ error }) => error?.code === "insufficient_quota").length;
    const soFar: (readonly TimedReply[])[] = [[], []];
    // One of the teams asks for more than its part.
    const asked = keys.map((key, at) => {
      const enough = (own: readonly TimedReply[]): boolean => {
        soFar[at] = own;
        return count(soFar.flat(), 200) >= 26 && refused(own) > 60;
      };
      return offer([gateway], key, { clients: at === 0 ? 16 : 4, forMs: 20_000, enough, body: { x_first_ms: 10 } });
    });
    const replies = (await Promise.all(asked)).flat();
    const attempts = upstream.ledger.chats.slice(before);
    expect([count(replies, 200), attempts.length]).toEqual([26, 30]);
    // Where one was kept waiting for the store, it went on with the places that it knew of.
    const waited = replies.some(({ tookMs }) => tookMs >= stalledMs);
    expect(mostAtOnce(attempts)).toBeLessThanOrEqual(waited ? 4 * workers : 4);
    await eventually("every call is in the sums", async () => (await spentNanosOf(store, `grp_${name}`)) === 300_000_000);
    const ofTeams = await Promise.all(["one", "two"].map((team) => spentNanosOf(store, `grp_${name}${team}`)));
    expect(ofTeams[0]! + ofTeams[1]!).toBe(300_000_000);
    expect(Math.max(...ofTeams)).toBeLessThanOrEqual(200_000_000);
  });

  test("show the calls of all of them to whoever watches one, from their beginning to their end", async () => {
    const key = await makeKey(store);
    const leaving = new AbortController();
    const states = new Map<string, string[]>();
    let running = 0;
    const response = await fetch(`${gateway.adminUrl}/admin/api/live`, {
      headers: { authorization: `Bearer ${adminToken}` },
      signal: leaving.signal,
    });
    const beganMs = Date.now();
    const watching = (async () => {
      const reader = new SseReader();
      for await (const chunk of response.body ?? []) {
        for (const { data } of reader.push(chunk) as readonly { readonly data: string }[]) {
          const frame = JSON.parse(data) as LiveFrameAnswer;
          running = frame.running;
          for (const call of frame.calls) {
            expect(Math.abs(call.started_ms - beganMs)).toBeLessThan(60_000);
            const seen = states.get(call.request_id) ?? [];
            if (seen.at(-1) !== call.state) states.set(call.request_id, [...seen, call.state]);
          }
        }
      }
    })().catch(() => undefined);
    upstream.behaviour = "fault:held-after@1";
    const replies = Promise.all(Array.from({ length: 12 }, async () => (await opened(gateway, key, {})).reply));
    await eventually("all of them run", () => running === 12 && states.size === 12, 20_000).finally(() => {
      upstream.release();
      upstream.behaviour = null;
    });
    const ids = (await replies).map(({ requestId }) => requestId ?? "");
    await eventually("all of them have ended", () => ids.every((id) => states.get(id)?.at(-1) === "complete") && running === 0);
    expect(ids.map((id) => states.get(id))).toEqual(ids.map(() => ["running", "complete"]));
    leaving.abort();
    await watching;
  });

  test("all learn of a revoked key, and its streams end", async () => {
    const key = await makeKey(store);
    const streams = await Promise.all(Array.from({ length: 12 }, () => opened(gateway, key, { x_tokens: 1_000, x_pace_ms: 20 })));
    await Promise.all(streams.map((call) => call.untilBody(200)));
    const revokedMs = performance.now();
    await store.storage.keys.revoke(key.id, ben);
    const replies = await Promise.all(streams.map(({ reply }) => reply));
    expect(performance.now() - revokedMs).toBeLessThan(slowed(5_000));
    expect(tally(replies)).toEqual({ "200 key_revoked": 12 });
    const after = await Promise.all(Array.from({ length: 12 }, () => chat(gateway, {}, { key: key.token })));
    expect(tally(after)).toEqual({ "401 invalid_api_key": 12 });
  });

  test("all learn that a group is frozen, and the streams of the keys below it end within five seconds", async () => {
    const { groups } = store.storage;
    const { id: top } = await groups.create("grp_freezing0001", newGroup("company", { kind: "organisation" }), [], ben);
    const { id: team } = await groups.create("grp_freezing0002", newGroup("crew", { parent: top }), [], ben);
    const [below, beside] = [await makeKey(store, {}, { group: team }), await makeKey(store)];
    const open = (key: MadeKey, x_tokens: number) => opened(gateway, key, { x_tokens, x_pace_ms: 20 });
    const streams = await Promise.all(Array.from({ length: 12 }, () => open(below, 1_000)));
    const others = await Promise.all(Array.from({ length: 6 }, () => open(beside, 200)));
    await Promise.all([...streams, ...others].map((call) => call.untilBody(200)));
    const frozenMs = performance.now();
    await groups.change(top, { frozen: true }, [], ben);
    const replies = await Promise.all(streams.map(({ reply }) => reply));
    expect(performance.now() - frozenMs).toBeLessThan(slowed(5_000));
    expect(tally(replies)).toEqual({ "200 group_frozen": 12 });
    const after = await Promise.all(Array.from({ length: 12 }, () => chat(gateway, {}, { key: below.token })));
    expect(tally(after)).toEqual({ "403 group_frozen": 12 });
    expect(tally(await Promise.all(others.map(({ reply }) => reply)))).toEqual({ 200: 6 });
  });

  test("read their file again when the parent is told to", async () => {
    const before = times(gateway, "reloaded");
    gateway.signal("SIGHUP");
    await eventually("all of them did", () => times(gateway, "reloaded") >= before + workers);
  });

  test("one that is killed is replaced while the others answer, and no completed call's receipt is lost", async () => {
    const key = await makeKey(store);
    const restarts = times(gateway, "worker_ended");
    const listening = times(gateway, "listening");
    let completed = 0;
    let over = false;
    const waits: number[] = [];
    const client = async (): Promise<void> => {
      while (!over) {
        const beganMs = performance.now();
        const reply = await chat(gateway, {}, { key: key.token }).catch(() => null);
        waits.push(performance.now() - beganMs);
        if (reply?.status === 200) completed += 1;
      }
    };
    const clients = Array.from({ length: 6 }, client);
    for (const worker of [1, 3]) {
      const soFar = completed;
      await eventually("calls are answered", () => completed > soFar + 50);
      process.kill(pidOf(gateway, worker), "SIGKILL");
      const then = completed;
      await eventually("calls go on being answered", () => completed > then + 50, 2_000);
    }
    await eventually("they are back", () => times(gateway, "listening") === listening + 2, 10_000);
    over = true;
    await Promise.all(clients);
    expect(times(gateway, "worker_ended")).toBe(restarts + 2);
    expect(gateway.logs.findLast(({ event }) => event === "worker_ended")).toMatchObject({ level: "warn", worker: 3, signal: "SIGKILL" });
    expect(Math.max(...waits)).toBeLessThan(slowed(2_000));
    // A call whose answer was under way when its worker died has a receipt too, and its client saw no end.
    await eventually("every completed call is in the sums", async () => (await calls(key)) >= completed);
    expect(await calls(key)).toBeLessThanOrEqual(completed + 2 * 6);
    expect(completed).toBeGreaterThan(200);
  });

  test("one that is killed gives back its concurrency slots and its money within two seconds, and no other notices", async () => {
    await expectFreedAtOnce({ gateway, upstream, store });
  });

  test("allow one address no more wrong keys than a single process would", async () => {
    const beganMs = performance.now();
    const wrong = await Promise.all(Array.from({ length: 150 }, () => chat(gateway, {}, { key: "sk-gw_wrong" })));
    const counts = tally(wrong);
    expect(Object.keys(counts).toSorted()).toEqual(["401 invalid_api_key", "429 too_many_auth_failures"]);
    // One is forgiven every two seconds.
    expect(counts["401 invalid_api_key"]).toBeLessThanOrEqual(30 + Math.ceil((performance.now() - beganMs) / 2_000));
    const key = await makeKey(store);
    expect(tally(await Promise.all(Array.from({ length: 12 }, () => chat(gateway, {}, { key: key.token }))))).toEqual({ "200": 12 });
  });

  test("end together when the parent is told to stop, after their streams, with code 0", async () => {
    const key = await makeKey(store);
    const streams = await Promise.all(Array.from({ length: 9 }, () => opened(gateway, key, { x_tokens: 30, x_pace_ms: 25 })));
    await Promise.all(streams.map((call) => call.untilBody(100)));
    gateway.signal("SIGTERM");
    const replies = await Promise.all(streams.map(({ reply }) => reply));
    expect(replies.map(({ done, finishReason }) => [done, finishReason])).toEqual(Array.from({ length: 9 }, () => [true, "stop"]));
    expect(await gateway.exited).toBe(0);
    expect(times(gateway, "stopped")).toBe(workers);
    for (const { pid } of started(gateway)) expect(isAlive(pid)).toBe(false);
    expect(await calls(key)).toBe(9);
  });
});

/**
 * Streams that have all slots of a key. There are none where the machine kept a worker waiting for the shared counts for so long that it
 * went on without them, or refused one.
 */
async function sixStreams(
  gateway: Gateway,
  store: Store,
  withinMs: number,
): Promise<{ readonly placed: MadeKey; readonly streams: readonly ChatCall[] }> {
  await eventually("all of them reach the shared counts", () => allShare(gateway), 20_000);
  const placed = await makeKey(store, { concurrency: 6 });
  const beganMs = performance.now();
  const streams = await Promise.all(
    Array.from({ length: 6 }, () => opened(gateway, placed, { x_tokens: 100_000, x_pace_ms: 50 }, { timeoutMs: 60_000 })),
  );
  await Promise.all(streams.map((call) => call.untilHead()));
  if (performance.now() - beganMs < withinMs && streams.every(({ response }) => response.status === 200)) return { placed, streams };
  for (const call of streams) call.abort();
  await Promise.all(streams.map(({ reply }) => reply));
  return { placed, streams: [] };
}

/**
 * Kills workers until one of them had streams. What it held is free within two seconds: of the parent's own clock from the end of the
 * worker on, and of a client's from the signal on.
 */
async function expectFreedAtOnce({ gateway, upstream, store }: FreedWorld): Promise<void> {
  const poor = await makeKey(store, { budget: { nanos: 300_000_000, period: "total" } });
  const spend = async (clients: number): Promise<number> =>
    count(await Promise.all(Array.from({ length: clients }, () => chat(gateway, {}, { key: poor.token }))), 200);
  // Several of them hold money of the budget now.
  let spent = await spend(12);
  // With a key of its own: a slot that has just become free is kept for a moment by the worker that had it.
  const whole = await chat(gateway, { x_tokens: 2_000 }, { key: (await makeKey(store)).token, stream: true });
  expect(whole).toMatchObject({ done: true, finishReason: "stop" });
  let { placed, streams } = await sixStreams(gateway, store, 1_000);
  if (streams.length < 6) ({ placed, streams } = await sixStreams(gateway, store, 1_000));
  if (streams.length < 6) ({ placed, streams } = await sixStreams(gateway, store, Infinity));
  expect(streams.length).toBe(6);
  await Promise.all(streams.map((call) => call.untilBody(200)));
  const cut = new Set<ChatCall>();
  for (const call of streams) void call.reply.catch(() => null).finally(() => cut.add(call));
  let killedMs = 0;
  let kills = 0;
  const endedBefore = times(gateway, "worker_ended");
  for (const worker of [2, 3, 1]) {
    const freed = times(gateway, "worker_freed");
    kills += 1;
    killedMs = performance.now();
    process.kill(pidOf(gateway, worker), "SIGKILL");
    await eventually("everything of it is said to be free", () => times(gateway, "worker_freed") > freed, 2_000);
    const said = gateway.logs.findLast(({ event }) => event === "worker_freed");
    expect(said).toMatchObject({ level: "info", worker });
    expect(Number(said?.["after_ms"])).toBeLessThan(slowed(2_000));
    expect(await store.database.all(sql`select budget from budget_holds where holder = ${String(said?.["member"])}`)).toEqual([]);
    // Where it had none of the streams, another one has.
    if (cut.size > 0) break;
    await eventually("it is replaced", () => times(gateway, "worker_ready") >= times(gateway, "worker_started"), 20_000);
  }
  const free = cut.size;
  expect(free).toBeGreaterThan(0);
  let ended = 0;
  // None of them is free again before all have asked.
  upstream.behaviour = "fault:held";
  const more = Promise.all(
    Array.from({ length: free + 2 }, async () => (await opened(gateway, placed, {})).reply.finally(() => (ended += 1))),
  );
  // Its leases would end after half a minute.
  const admitted = (): number =>
    upstream.ledger.chats.filter(({ behaviour, endedBy }) => behaviour === "fault:held" && endedBy === null).length;
  await eventually("its slots are in use again", () => admitted() === free, 2_000);
  expect(performance.now() - killedMs).toBeLessThan(slowed(2_000));
  await eventually("the others are refused", () => ended >= 2, 20_000).finally(() => {
    upstream.behaviour = null;
    upstream.release();
  });
  expect(tally(await more)).toEqual({ "200": free, "429 concurrency_limit": 2 });
  // What it held would expire after ten minutes.
  await eventually("all of the budget can be spent", async () => (spent += await spend(30 - spent)) === 30, 20_000);
  expect(await spend(4)).toBe(0);
  // Its calls were under way. Those whose beginning was on the disk are known, and billed what was reserved for them; younger ones are lost.
  const lost = {
    keyId: placed.id,
    model: null,
    channel: null,
    state: "unknown",
    sinceMs: null,
    untilMs: null,
    before: null,
    limit: 10,
  } as const;
  expect((await store.storage.receipts.list(lost)).length).toBeLessThanOrEqual(free);

  const others = streams.filter((call) => !cut.has(call));
  expect(others.length).toBe(6 - free);
  const soFar = others.map(({ response }) => response.bodyLength);
  await eventually("their streams go on", () => others.every(({ response }, at) => response.bodyLength > soFar[at]! + 1_000));
  expect(cut.size).toBe(free);
  // An attempt is told apart from another by its id, with which each of its tokens is tagged, and by its second.
  const anybodys = ({ call, response }: Pick<ChatCall, "call" | "response">): string =>
    response.text.replaceAll(upstream.ledger.ofCall(call ?? "")[0]!.id, "*").replaceAll(/"created":\d+/g, '"created":0');
  for (const call of others) {
    call.abort();
    await call.reply;
    expect(anybodys(whole).startsWith(anybodys(call))).toBe(true);
  }
  expect(times(gateway, "worker_ended")).toBe(endedBefore + kills);
  await eventually("it is replaced", () => times(gateway, "worker_ready") >= times(gateway, "worker_started"), 20_000);
}

/** What processes of one machine share besides the store of it, or in its place. */
const shares = [
  { what: `a Redis${remark(redis)}`, server: redis, config: async () => ({ state: present(redis).url }) },
  { what: `a PostgreSQL${remark(postgres)}`, server: postgres, config: async () => ({ store: await present(postgres).freshDatabase() }) },
];

for (const { what, server, config: configOf } of shares) {
  describe.skipIf("skipped" in server)(`several processes behind one port that share ${what}`, () => {
    test("get back what one of them held that was killed within two seconds, and do not notice otherwise", async () => {
      await using upstream = await startChaos();
      const config = {
        store: "sqlite",
        prices: [{ model: "*", call: 0.01 }],
        channels: [{ name: "a", base_url: upstream.url, models: "*" }],
        server: { linger: "0ms" },
        ...(await configOf()),
      };
      await using gateway = await startGateway({ config, args: ["--workers", String(workers)], env: { SLUICE_MASTER_KEY: masterKey } });
      await eventually("all of them are ready", () => times(gateway, "worker_ready") === workers, 10_000);
      const store = await openStore({ store: config.store, dataDir: join(gateway.directory, "data") }, masterKey, false);
      try {
        await expectFreedAtOnce({ gateway, upstream, store });
      } finally {
        await store.database.close();
      }
    });
  });
}

interface FreedWorld {
  readonly gateway: Gateway;
  readonly upstream: Chaos;
  readonly store: Store;
}

describe("a parent", () => {
  test("that is killed takes its workers with it", async () => {
    await using upstream = await startChaos();
    const key = "sk-client-canary-0123456789abcdef";
    await using gateway = await startGateway({
      config: { channels: [{ name: "a", base_url: upstream.url }], keys: [{ name: "x", key }] },
      args: ["--workers", "2"],
    });
    await eventually("both listen", () => times(gateway, "listening") === 2, 10_000);
    const pids = started(gateway).map(({ pid }) => pid);
    expect((await chat(gateway, {}, { key })).status).toBe(200);
    gateway.signal("SIGKILL");
    await eventually("they are gone", () => pids.every((pid) => !isAlive(pid)), 10_000);
    // The port may belong to a server of another test by now, which does not know this upstream.
    await chat(gateway, {}, { key }).catch(() => null);
    expect(upstream.ledger.chats).toHaveLength(1);
  });

  test("that is told twice waits for no stream, and ends with code 0", async () => {
    await using upstream = await startChaos();
    const key = "sk-client-canary-0123456789abcdef";
    await using gateway = await startGateway({
      config: { channels: [{ name: "a", base_url: upstream.url, models: "*" }], keys: [{ name: "x", key }], server: { linger: "0ms" } },
      args: ["--workers", "2"],
    });
    const call = await openChat(gateway, { x_tokens: 1_000, x_pace_ms: 50 }, { key, stream: true });
    await call.untilBody(100);
    gateway.signal("SIGTERM");
    await gateway.waitForLog(({ event }) => event === "stopping");
    expect(gateway.running).toBe(true);
    const toldMs = performance.now();
    gateway.signal("SIGTERM");
    expect(await gateway.exited).toBe(0);
    expect(performance.now() - toldMs).toBeLessThan(slowed(2_000));
    await call.reply;
  });

  test("that is told to stop while a worker is still starting waits for the others alone, and ends with code 0", async () => {
    const ready = 'process.send({ port: 1 }); process.on("message", (order) => order === "end" && process.exit(0));';
    const lines: string[] = [];
    const note = (event: string): void => void lines.push(event);
    const family = new Workers({
      count: 2,
      command: (number) => [process.execPath, "-e", number === 1 ? ready : "setInterval(() => {}, 1000)"],
      environment: { PATH: process.env["PATH"] ?? "" },
      log: { info: note, warn: note },
    });
    await eventually("the second is started", () => lines.filter((event) => event === "worker_started").length === 2, 10_000);
    family.stop(true);
    family.stop(true);
    expect(await family.ended).toBe(0);
  });

  test("asks another worker to free what an ended one held, where the first that it asks is dead as well or does not answer", async () => {
    const script = (free: string): string =>
      `process.send({ port: 1, member: "m" + process.argv[1] }); process.on("message", (told) => told === "end" ? process.exit(0) : told.workerEnded && ${free});`;
    const deaf = script("0");
    const able = script("process.send({ workerFreed: told.workerEnded })");
    const lines: Readonly<Record<string, unknown>>[] = [];
    const note = (event: string, fields: Readonly<Record<string, unknown>>): void => void lines.push({ event, ...fields });
    const family = new Workers({
      count: 4,
      command: (number) => [process.execPath, "-e", number === 2 ? deaf : able, String(number)],
      environment: { PATH: process.env["PATH"] ?? "" },
      log: { info: note, warn: note },
      pauseMs: 60_000,
    });
    const of = (event: string): readonly Readonly<Record<string, unknown>>[] => lines.filter((line) => line["event"] === event);
    try {
      await eventually("all are ready", () => of("worker_ready").length === 4, 20_000);
      const pid = (number: number): number => Number(of("worker_ready").find(({ worker }) => worker === number)?.["pid"]);
      for (const number of [4, 1]) process.kill(pid(number), "SIGKILL");
      await eventually("both are free", () => of("worker_freed").length === 2, 2_000);
      const freed = of("worker_freed").toSorted((one, other) => Number(one["worker"]) - Number(other["worker"]));
      expect(freed).toMatchObject([
        { worker: 1, member: "m1", by: 3 },
        { worker: 4, member: "m4", by: 3 },
      ]);
      for (const line of freed) expect(Number(line["after_ms"])).toBeLessThan(slowed(2_000));
    } finally {
      family.stop(false);
      family.stop(false);
      await family.ended;
    }
  });

  test("replaces a worker that hangs, and leaves one alone that is only busy for a while", async () => {
    const directory = mkdtempSync(join(tmpdir(), "sluice-workers-"));
    const config = join(directory, "sluice.yaml");
    writeFileSync(
      config,
      JSON.stringify({ listen: "127.0.0.1:0", admin: "off", data_dir: join(directory, "data"), server: { linger: "0ms" } }),
    );
    const lines: { readonly event: string; readonly worker: number; readonly pid: number; readonly signal?: string }[] = [];
    const note = (event: string, fields: Readonly<Record<string, unknown>>): void => {
      lines.push({ event, ...(fields as { worker: number; pid: number }) });
    };
    const family = new Workers({
      count: 2,
      command: (number, port) => {
        const own = ["start", "--config", config, "--workers", "2", "--worker", String(number)];
        return [
          "sh",
          "-c",
          'exec "$@" > /dev/null',
          "sh",
          "sh",
          product,
          ...own,
          ...(port === null ? [] : ["--worker-port", String(port)]),
        ];
      },
      environment: { PATH: process.env["PATH"] ?? "", HOME: directory },
      log: { info: note, warn: note },
      silentMs: 4_000,
    });
    try {
      const ready = (): readonly number[] => lines.filter(({ event }) => event === "worker_ready").map(({ pid }) => pid);
      await eventually("both are up", () => ready().length === 2, 10_000);
      const [first = 0, second = 0] = ready();
      process.kill(second, "SIGSTOP");
      // Meanwhile the first one stands still for half of the time.
      for (let round = 0; ready().length < 3 && round < 8; round += 1) {
        process.kill(first, "SIGSTOP");
        await sleep(1_000);
        process.kill(first, "SIGCONT");
        await sleep(1_000);
      }
      expect(lines.filter(({ event }) => event === "worker_silent")).toEqual([
        expect.objectContaining({ worker: 2, pid: second, silent_ms: 4_000 }),
      ]);
      expect(lines.find(({ event }) => event === "worker_ended")).toMatchObject({ worker: 2, signal: "SIGKILL" });
      expect(ready().length).toBe(3);
      expect([isAlive(first), isAlive(second)]).toEqual([true, false]);
    } finally {
      for (const { pid } of lines.filter(({ event, pid: of }) => event === "worker_started" && isAlive(of))) process.kill(pid, "SIGCONT");
      family.stop(false);
      await family.ended;
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test.each(["0", "-1", "1.5", "many", String(4 * availableParallelism() + 1)])("does not start %s of them, in words", async (number) => {
    await expect(startGateway({ config: {}, args: ["--workers", number] })).rejects.toThrow(
      /ended with 64[\s\S]*--workers must be a whole number from 1 to/,
    );
  });

  test("starts nothing where the port is in use, not even by a gateway that shares it", async () => {
    await using upstream = await startChaos();
    const config = { channels: [{ name: "a", base_url: upstream.url }] };
    await using first = await startGateway({ config, args: ["--workers", "2"] });
    const second = startGateway({ config: { ...config, listen: new URL(first.url).host }, args: ["--workers", "2"] });
    await expect(second).rejects.toThrow(/ended with 1[\s\S]*is already in use/);
  });

  test("starts nothing where the first worker cannot start, and says why", async () => {
    const store = "postgres://nobody@127.0.0.1:1/none";
    await expect(startGateway({ config: { store, channels: [] }, args: ["--workers", "2"] })).rejects.toThrow(
      /ended with 1[\s\S]*PostgreSQL cannot be reached[\s\S]*The gateway was not started/,
    );
  });

  test("is what the command line help tells about, and its hidden options are not", () => {
    const { stdout } = Bun.spawnSync(["sh", resolve(import.meta.dir, "../../bin/sluice"), "start", "--help"]);
    expect(stdout.toString()).toContain("--workers <number>");
    expect(stdout.toString()).not.toContain("--worker-port");
  });
});

describe("lines of several processes", () => {
  test("are written whole, in pieces that the system keeps together", () => {
    const pieces: string[] = [];
    const write = wholeLines((bytes) => {
      pieces.push(new TextDecoder().decode(bytes));
      return bytes.length;
    }, 10);
    const bytes = Buffer.from("abc\nd\neé\nfghijklmnopqrst\nuv\nw");
    expect(write(bytes)).toBe(bytes.length);
    expect(pieces).toEqual(["abc\nd\neé\n", "fghijklmnopqrst\n", "uv\nw"]);
  });

  test("that were not taken are not counted as written", () => {
    const write = wholeLines((bytes) => Math.min(bytes.length, 3), 5);
    expect(write(Buffer.from("ab\ncd\nefgh\n"))).toBe(9);
    expect(write(Buffer.from("abcd\nefgh\n"))).toBe(3);
    expect(wholeLines(() => null)(Buffer.from("ab\n"))).toBeNull();
  });
});
