// Needs: quiet, servers, long. Three gateways are replaced one after the other, which mostly waits for them.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chat, type ChatReply } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { rawRequest } from "../support/raw-request.ts";
import { masterKey, startReplicas, type MadeKey, type Replicas } from "../support/replicas.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startPostgres } from "../support/servers/postgres.ts";
import { startRedis } from "../support/servers/redis.ts";
import { slowness } from "../support/slowed.ts";

setDefaultTimeout(180_000);

const postgres = await startPostgres({ fsync: false });
const redis = await startRedis();
const folder = mkdtempSync(join(tmpdir(), "sluice-rolling-"));

afterAll(async () => {
  if (!("skipped" in postgres)) await postgres.stop();
  if (!("skipped" in redis)) await redis.stop();
  rmSync(folder, { recursive: true, force: true });
});

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
  readonly replies: ChatReply[] = [];
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
    { streams, others }: { readonly streams: number; readonly others: number },
  ) {
    this.clients = Array.from({ length: streams + others }, async (_, at) => this.client(at < streams));
  }

  async stop(): Promise<void> {
    this.over = true;
    await Promise.all(this.clients);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  private async client(stream: boolean): Promise<void> {
    const body = stream ? { x_tokens: 20, x_pace_ms: 15 } : { x_tokens: 3 };
    while (!this.over) {
      const reply = await chat(this.balancer.next(), body, { key: this.key.token, stream, timeoutMs: 60_000 }).catch(() => null);
      // Nobody answered, or a machine that is too busy said so: neither tells anything about the upgrade, and clients repeat both.
      const isBusy = reply?.error?.code === "overloaded" || (reply?.status === 503 && slowness() > 1);
      if (reply === null || reply.status === 0 || isBusy) {
        this.unanswered += 1;
        await Bun.sleep(20);
      } else {
        this.replies.push(reply);
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

describe.skipIf(remark(postgres, redis) !== "")(`three replicas that are replaced one after the other${remark(postgres, redis)}`, () => {
  test("answer every call, store every receipt, and spend a budget to the last call and not beyond", async () => {
    await using replicas: Replicas = await startReplicas({
      postgres: present(postgres),
      redis: present(redis),
      count: 3,
      config: { prices: [{ model: "*", call: 0.01 }], server: { linger: "1s" } },
      startOf: () => ({ directory: mkdtempSync(join(folder, "replica-")), env: { SLUICE_MASTER_KEY: masterKey } }),
    });
    await replicas.acquainted();
    const [open, budgeted] = [
      await replicas.key({ requests: 100_000, concurrency: 50 }),
      await replicas.key({ budget: { nanos: 600_000_000, period: "total" } }),
    ];
    using balancer = new LoadBalancer(replicas.all.map(({ gateway }) => gateway));
    await using steady = new Clients(balancer, open, { streams: 2, others: 2 });
    await using spending = new Clients(balancer, budgeted, { streams: 2, others: 0 });
    for (const [at, replica] of replicas.all.entries()) {
      const before = steady.replies.length;
      await eventually("calls are answered", () => steady.replies.length > before + 20, 60_000);
      const old = replica.gateway;
      old.signal("SIGTERM");
      expect(await old.exited).toBe(0);
      const gateway = await startGateway({
        config: replica.config,
        directory: old.directory,
        env: { SLUICE_MASTER_KEY: masterKey },
      });
      balancer.gateways[at] = gateway;
      replicas.all[at] = { ...replica, gateway };
      const after = steady.replies.length;
      await eventually("calls go on", () => steady.replies.length > after + 20, 60_000);
    }
    await steady.stop();
    await eventually("the budget is spent", async () => (await replicas.calls(budgeted.id)) >= 60, 120_000);
    await eventually("it is refused more", () => spending.replies.at(-1)?.status === 429, 60_000);
    await spending.stop();

    expect(errors(steady.replies)).toEqual([]);
    expect(errors(spending.replies)).toEqual(["429 insufficient_quota"]);
    expect([...steady.cut, ...spending.cut]).toEqual([]);
    const answered = spending.replies.filter(({ status }) => status === 200);
    // A call that nobody answered may have been paid for.
    expect(answered.length).toBeWithin(60 - spending.unanswered, 61);
    await eventually("the sums have every call", async () => (await replicas.calls(open.id)) >= steady.replies.length);
    const { receipts } = replicas.store.storage;
    const missing: (string | null)[] = [];
    for (const { requestId } of [...steady.replies, ...answered]) {
      if ((await receipts.find(requestId ?? "")) === null) missing.push(requestId);
    }
    expect(missing).toEqual([]);
    expect(await replicas.calls(budgeted.id)).toBe(60);
  });
});
