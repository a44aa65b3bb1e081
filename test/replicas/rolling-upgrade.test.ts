// Needs: quiet, servers, long. Three gateways are replaced one after the other, which mostly waits for them.
import { SQL } from "bun";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore, type Store } from "../../src/app/durable.ts";
import { startChaos } from "../support/chaos.ts";
import type { Attempt } from "../support/chaos/ledger.ts";
import { chat, type ChatReply } from "../support/chat.ts";
import { OpenStreams } from "../support/open-streams.ts";
import { earlierVersion } from "../support/earlier-version.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway, type GatewayOptions } from "../support/gateway.ts";
import { mostInAMinute, type PacedReply } from "../support/paced.ts";
import { rawRequest } from "../support/raw-request.ts";
import { callsOf, count, makeKey, masterKey, startReplicas, tallyAtOnce, type MadeKey, type Replicas } from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowness } from "../support/slowed.ts";

setDefaultTimeout(180_000);

const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const earlier = earlierVersion();
const folder = mkdtempSync(join(tmpdir(), "sluice-rolling-"));

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
  if (!("skipped" in earlier)) earlier[Symbol.dispose]();
  rmSync(folder, { recursive: true, force: true });
});

const streamTokens = 20;

/** Sends each call to the next gateway that says it is ready, and looks for that as often as a health check would. */
class LoadBalancer implements Disposable {
  private stopped = false;
  private ready: readonly Gateway[];
  private turn = 0;

  constructor(readonly gateways: Gateway[]) {
    this.ready = [...gateways];
    void this.watch();
  }

  next(): Gateway {
    this.turn += 1;
    return this.ready[this.turn % this.ready.length] ?? this.gateways[0]!;
  }

  [Symbol.dispose](): void {
    this.stopped = true;
  }

  private async watch(): Promise<void> {
    for (; !this.stopped; await Bun.sleep(50)) await this.look();
  }

  private async look(): Promise<void> {
    const looked = this.gateways.map(async (gateway) => {
      const status = gateway.running ? (await rawRequest(`${gateway.url}/readyz`).catch(() => null))?.status : 0;
      return status === 200 ? [gateway] : [];
    });
    const ready = (await Promise.all(looked)).flat();
    if (ready.length > 0) this.ready = ready;
  }
}

/** Clients that call one after the other, and try again elsewhere where nobody answered: what they were told, call by call. */
class Clients implements AsyncDisposable {
  readonly replies: PacedReply[] = [];
  /** Answers that broke off. */
  readonly cut: ChatReply[] = [];
  /** How often nobody answered. */
  unanswered = 0;
  private over = false;
  private readonly clients: readonly Promise<void>[];

  /** The first of them read streams, which go on while their gateway is told to stop. */
  constructor(
    private readonly balancer: LoadBalancer,
    private readonly key: MadeKey,
    { streams, others, model = "chaos" }: { readonly streams: number; readonly others: number; readonly model?: string },
  ) {
    this.clients = Array.from({ length: streams + others }, async (_, at) => this.client(at < streams, model));
  }

  async stop(): Promise<void> {
    this.over = true;
    await Promise.all(this.clients);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  private async client(stream: boolean, model: string): Promise<void> {
    const body = { model, ...(stream ? { x_tokens: streamTokens, x_pace_ms: 15 } : { x_tokens: 3 }) };
    while (!this.over) {
      const atMs = performance.now();
      const reply = await chat(this.balancer.next(), body, { key: this.key.token, stream, timeoutMs: 60_000 }).catch(() => null);
      // Nobody answered, or a machine that is too busy said so: neither tells anything about the upgrade, and clients repeat both.
      const isBusy = reply?.error?.code === "overloaded" || (reply?.status === 503 && slowness() > 1);
      if (reply === null || reply.status === 0 || isBusy) {
        this.unanswered += 1;
        await Bun.sleep(20);
      } else {
        this.replies.push({ ...reply, atMs, tookMs: performance.now() - atMs });
        if (reply.status === 200 && (!reply.response.endedCleanly || (stream && !reply.done))) this.cut.push(reply);
        // Nor do others ask as fast as they can: they would have the processors that the gateways start with, and prove nothing more.
        if (reply.status === 429 || !stream) await Bun.sleep(50);
      }
    }
  }
}

/** The status and the code of each reply that is not 200. */
function errors(replies: readonly ChatReply[]): readonly string[] {
  return [...new Set(replies.flatMap(({ status, error }) => (status === 200 ? [] : [`${status} ${error?.code}`])))];
}

interface Rolling {
  /** What runs is replaced in this list. */
  readonly gateways: Gateway[];
  /** Starts the next gateway where one has ended. */
  readonly start: (at: number, directory: string) => Promise<Gateway>;
  /** Read when all are replaced. */
  readonly store: () => Promise<Store>;
  /** Its own limits are never reached. */
  readonly open: MadeKey;
  /** It pays for as many calls. */
  readonly budgeted: MadeKey & { readonly pays: number };
  /** It may make `perMinute` calls a minute, and asks for more. */
  readonly rated: MadeKey;
  /** It may have `atOnce` calls at the same time, and asks for more. */
  readonly placed: MadeKey;
  /** What the upstream was asked so far. */
  readonly attempts: () => readonly Attempt[];
}

const perMinute = 120;
const atOnce = 3;

/** Replaces one gateway after the other while clients call, and holds what these were told against what is stored. */
async function replaceAll({ gateways, start, store: openedStore, open, budgeted, rated, placed, attempts }: Rolling): Promise<void> {
  using balancer = new LoadBalancer(gateways);
  const everyGateway = [...gateways];
  await using steady = new Clients(balancer, open, { streams: 2, others: 2 });
  await using spending = new Clients(balancer, budgeted, { streams: 2, others: 0 });
  await using hurrying = new Clients(balancer, rated, { streams: 0, others: 2 });
  using openStreams = new OpenStreams(attempts, { crowded: streamTokens });
  await using crowding = new Clients(balancer, placed, { streams: 10, others: 0, model: "crowded" });
  for (const [at, old] of [...gateways].entries()) {
    const before = steady.replies.length;
    await eventually("calls are answered", () => steady.replies.length > before + 20, 60_000);
    old.signal("SIGTERM");
    expect(await old.exited).toBe(0);
    gateways[at] = await start(at, old.directory);
    everyGateway.push(gateways[at]);
    const after = steady.replies.length;
    await eventually("calls go on", () => steady.replies.length > after + 20, 60_000);
  }
  await eventually("the limit of a minute was reached", () => count(hurrying.replies, 429) > 0, 60_000);
  await eventually("all places were taken", () => count(crowding.replies, 429) > 0, 60_000);
  await Promise.all([steady, hurrying, crowding].map((clients) => clients.stop()));
  const store = await openedStore();
  await eventually("the budget is spent", async () => (await callsOf(store, budgeted.id)) >= budgeted.pays, 120_000);
  await eventually("it is refused more", () => spending.replies.at(-1)?.status === 429, 60_000);
  await spending.stop();

  expect(errors(steady.replies)).toEqual([]);
  expect(errors(spending.replies)).toEqual(["429 insufficient_quota"]);
  expect([...steady.cut, ...spending.cut]).toEqual([]);

  // On a busy machine Redis may not answer in time and count as lost. What a process grants without it, and has not reported when it is
  // told to stop, no other process knows of.
  const isLost = everyGateway.some(({ logs }) => logs.some(({ event }) => event === "state_lost"));
  expect(errors(hurrying.replies)).toEqual(["429 rate_limit_exceeded"]);
  const most = mostInAMinute(hurrying.replies);
  expect(most).toBeLessThanOrEqual(perMinute * (isLost ? 2 : 1.05));
  expect(most + hurrying.unanswered).toBeGreaterThanOrEqual(isLost ? 1 : perMinute * 0.95);
  expect(errors(crowding.replies)).toEqual(["429 concurrency_limit"]);
  expect(openStreams.most).toBeLessThanOrEqual(isLost ? 2 * atOnce : atOnce);
  await eventually("all places are free, and no more", async () => (await tallyAtOnce(gateways, placed, 3 * atOnce))["200"] === atOnce);

  const answered = spending.replies.filter(({ status }) => status === 200);
  // A call that nobody answered may have been paid for.
  expect(answered.length).toBeWithin(budgeted.pays - spending.unanswered, budgeted.pays + 1);
  await eventually("the sums have every call", async () => (await callsOf(store, open.id)) >= steady.replies.length);
  const missing: (string | null)[] = [];
  for (const { requestId } of [...steady.replies, ...answered]) {
    if ((await store.storage.receipts.find(requestId ?? "")) === null) missing.push(requestId);
  }
  expect(missing).toEqual([]);
  expect(await callsOf(store, budgeted.id)).toBe(budgeted.pays);
}

const rollingConfig = { prices: [{ model: "*", call: 0.01 }], server: { linger: "1s" } };
const env = { SLUICE_MASTER_KEY: masterKey };
const newFolder = (): string => mkdtempSync(join(folder, "replica-"));

describe.skipIf(remark(postgres, redis) !== "")(`three replicas that are replaced one after the other${remark(postgres, redis)}`, () => {
  test("answer every call, store every receipt, keep limits, and spend a budget to the last call and not beyond", async () => {
    await using replicas: Replicas = await startReplicas({
      postgres: present(postgres),
      redis: present(redis),
      // Without a wire, which would be in the way on a busy machine.
      state: present(redis).url,
      count: 3,
      config: rollingConfig,
      startOf: () => ({ directory: newFolder(), env }),
    });
    await replicas.acquainted();
    await replaceAll({
      gateways: replicas.all.map(({ gateway }) => gateway),
      start: async (at, directory) => {
        const replica = replicas.all[at]!;
        const gateway = await startGateway({ config: replica.config, directory, env });
        replicas.all[at] = { ...replica, gateway };
        return gateway;
      },
      store: async () => replicas.store,
      open: await replicas.key({ requests: 100_000, concurrency: 50 }),
      budgeted: { ...(await replicas.key({ budget: { nanos: 600_000_000, period: "total" } })), pays: 60 },
      rated: await replicas.key({ requests: perMinute }),
      placed: await replicas.key({ concurrency: atOnce }),
      attempts: () => replicas.attempts,
    });
  });

  test.skipIf(remark(earlier) !== "")(
    `and are of the schema before, of which the first new one upgrades the store, do so as well${remark(earlier)}`,
    async () => {
      const { command, schema } = present(earlier);
      await using upstream = await startChaos({ name: "a" });
      const store = await present(postgres).freshDatabase();
      await using client = new SQL({ url: store, max: 1 });
      const schemaOfStore = async (): Promise<number | undefined> => {
        const [row] = (await client`select max(number)::int as newest from migrations`) as readonly { readonly newest: number }[];
        return row?.newest;
      };
      await using running = new AsyncDisposableStack();
      const channels = [{ name: "a", base_url: upstream.url, models: "*" }];
      const config = { ...rollingConfig, store, state: present(redis).url, channels };
      const start = async (directory: string, version: Pick<GatewayOptions, "command">): Promise<Gateway> =>
        running.use(await startGateway({ config, directory, env, ...version }));
      const old = await Promise.all(Array.from({ length: 3 }, () => start(newFolder(), { command })));
      const oldKey = (name: string, ...limits: readonly string[]): MadeKey => {
        const { exitCode, stdout, stderr } = Bun.spawnSync(
          [...command, "keys", "create", name, "--json", "--config", "sluice.yaml", ...limits],
          { cwd: old[0]!.directory, env: { PATH: process.env["PATH"] ?? "", ...env } },
        );
        if (exitCode !== 0) throw new Error(`no key was made: ${stderr.toString()}`);
        const { id, key } = JSON.parse(stdout.toString()) as { readonly id: string; readonly key: string };
        return { id, token: key };
      };
      const keys = {
        open: oldKey("open", "--rpm", "100000", "--concurrency", "50"),
        budgeted: { ...oldKey("budgeted", "--budget", "0.6"), pays: 60 },
        rated: oldKey("rated", "--rpm", String(perMinute)),
        placed: oldKey("placed", "--concurrency", String(atOnce)),
      };
      expect(await schemaOfStore()).toBe(schema);
      let openedStore: Store | null = null;
      const newStore = async (): Promise<Store> => {
        if (openedStore !== null) return openedStore;
        const opened = await openStore({ store, dataDir: newFolder() }, masterKey, false);
        running.defer(() => opened.database.close());
        return (openedStore = opened);
      };
      const gateways = [...old];
      await replaceAll({
        gateways,
        start: async (_, directory) => {
          const started = await start(directory, {});
          // The old ones look up keys of the new one, and pay of their budgets.
          const { token } = await makeKey(await newStore(), { budget: { nanos: 1_000_000_000, period: "total" } });
          for (const gateway of [started, ...gateways.filter((other) => other.running)]) {
            await eventually("a new key is served", async () => (await chat(gateway, {}, { key: token })).status === 200, 5_000);
          }
          return started;
        },
        store: newStore,
        attempts: () => upstream.ledger.chats,
        ...keys,
      });
      expect(await schemaOfStore()).toBe(schema + 1);
      // Of statements that do not fit the tables (SQL states 22, 23 and 42). Some of what they do is made up for by whoever comes after.
      const complaints = old.flatMap(({ logs }) => logs.filter(({ detail }) => /\((?:22|23|42)\w{3}\)/.test(String(detail))));
      expect(complaints).toEqual([]);
    },
  );
});
