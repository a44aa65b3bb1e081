import { expect } from "bun:test";
import { RedisClient } from "bun";
import { openStore, type Store } from "../../src/app/durable.ts";
import { type Limits, unlimited } from "../../src/limits/limits.ts";
import { makeToken } from "../../src/keys/token.ts";
import type { Actor } from "../../src/gateway/storage.ts";
import { openDatabase } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChaos, type Chaos } from "./chaos.ts";
import { chat, openChat, type ChatCall, type ChatOptions, type ChatReply } from "./chat.ts";
import { eventually } from "./eventually.ts";
import { parseExposition, type ExposedFamily } from "./exposition.ts";
import { startFaultProxy, type FaultProxy } from "./fault-proxy.ts";
import { startGateway, type Gateway, type GatewayOptions } from "./gateway.ts";
import { newGroup } from "./groups.ts";
import { newKey } from "./new-key.ts";
import { rawRequest } from "./raw-request.ts";
import type { TestPostgres } from "./servers/postgres.ts";
import type { TestRedis } from "./servers/redis.ts";
import { slowed } from "./slowed.ts";

export const ben: Actor = { kind: "cli", name: "ben" };
export const masterKey = new Bun.CryptoHasher("sha256").update("replicas").digest("hex");

export interface ReplicasOptions {
  readonly postgres: TestPostgres;
  /** A standby of it, which the address of the store names as well. */
  readonly standby?: TestPostgres;
  /** Null: the database shares what Redis otherwise would. */
  readonly redis: TestRedis | null;
  /** In place of the address of `redis` alone, past all wires. */
  readonly state?: string;
  readonly count?: number;
  /** What is added to each channel; each has an upstream of its own. */
  readonly channels?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Where one of them is started otherwise than the others. */
  readonly startOf?: (at: number) => Omit<GatewayOptions, "config">;
}

/** Gateways as separate processes over one PostgreSQL and one Redis, each with wires of its own to them that can be broken. */
export async function startReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { postgres, redis, count = 2, channels = { a: {} } } = options;
  const url = new URL(await postgres.freshDatabase(await migratedOf(postgres)));
  const named = (port: number): string =>
    postgres
      .urlOf(url.pathname.slice(1), port)
      .replace(/(:\d+)\//, options.standby === undefined ? "$1/" : `$1,${options.standby.host}:${options.standby.port}/`);
  const folder = mkdtempSync(join(tmpdir(), "sluice-replicas-"));
  const store = await openStore({ store: named(Number(url.port)), dataDir: folder }, masterKey, false);
  const upstream: Record<string, Chaos> = {};
  for (const name of Object.keys(channels)) upstream[name] = await startChaos({ name });
  const replicas = new Replicas(store, url.href, upstream, folder, redis);
  try {
    const started = Array.from({ length: count }, async (_, at): Promise<Replica> => {
      const toPostgres = await startFaultProxy({ to: postgres });
      const toRedis = redis === null ? null : await startFaultProxy({ to: redis });
      const config = {
        store: named(toPostgres.port),
        state: options.state ?? (toRedis === null ? "memory" : `redis://127.0.0.1:${toRedis.port}`),
        channels: Object.entries(channels).map(([name, more]) => ({ name, base_url: upstream[name]!.url, models: "*", ...more })),
        server: { linger: "0ms", wrong_keys: 10_000 },
        ...options.config,
      };
      return {
        toPostgres,
        toRedis,
        config,
        gateway: await startGateway({ env: { SLUICE_MASTER_KEY: masterKey }, ...options.startOf?.(at), config }),
      };
    });
    for (const replica of await Promise.all(started)) replicas.all.push(replica);
    return replicas;
  } catch (error) {
    await replicas[Symbol.asyncDispose]();
    throw error;
  }
}

/** A database of each server, which is copied: to migrate each one would take longer. */
const migrated = new WeakMap<TestPostgres, Promise<string>>();

async function migratedOf(postgres: TestPostgres): Promise<string> {
  const made = migrated.get(postgres) ?? migratedOnce(postgres);
  migrated.set(postgres, made);
  return made;
}

async function migratedOnce(postgres: TestPostgres): Promise<string> {
  const store = await postgres.freshDatabase();
  await (await openDatabase({ store, dataDir: "" })).close();
  return store;
}

export interface Replica {
  readonly gateway: Gateway;
  readonly toPostgres: FaultProxy;
  readonly toRedis: FaultProxy | null;
  /** As it was started with. */
  readonly config: Readonly<Record<string, unknown>>;
}

export interface MadeKey {
  readonly id: string;
  readonly token: string;
}

export class Replicas implements AsyncDisposable {
  readonly all: Replica[] = [];

  constructor(
    /** The store itself, past all wires. */
    readonly store: Store,
    readonly url: string,
    readonly upstream: Readonly<Record<string, Chaos>>,
    private readonly folder: string,
    private readonly redis: TestRedis | null,
  ) {}

  get a(): Replica {
    return this.all[0]!;
  }

  get b(): Replica {
    return this.all[1]!;
  }

  /** What all upstreams were asked. */
  get attempts(): Chaos["ledger"]["attempts"] {
    return Object.values(this.upstream).flatMap(({ ledger }) => ledger.chats);
  }

  key(limits: Partial<Limits> = {}): Promise<MadeKey> {
    return makeKey(this.store, limits);
  }

  /** When those that share counts last said that they are there, by the store's clock. */
  async seenMs(): Promise<readonly number[]> {
    if (this.redis === null) {
      return (await this.store.database.all<{ seen_ms: number }>(sql`select seen_ms from processes`)).map((row) => row.seen_ms);
    }
    const client = new RedisClient(this.redis.url);
    try {
      // Pairs of a name and a number, one after another or each a list of its own.
      const scores = ((await client.send("ZRANGE", ["sluice:processes", "0", "-1", "WITHSCORES"])) as readonly unknown[]).flat();
      return scores.filter((_, at) => at % 2 === 1).map(Number);
    } finally {
      client.close();
    }
  }

  /** Resolves when each of them knows of all the others. */
  async acquainted(): Promise<void> {
    await eventually("all have made themselves known", async () => (await this.seenMs()).length >= this.all.length);
    const newestMs = Math.max(...(await this.seenMs()));
    await eventually("all have heard of each other", async () => (await this.seenMs()).every((seenMs) => seenMs >= newestMs), 20_000);
  }

  calls(keyId: string): Promise<number> {
    return callsOf(this.store, keyId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.all.map(async ({ gateway, toPostgres, toRedis }) => {
        await gateway.kill();
        await toPostgres.close();
        await toRedis?.close();
      }),
    );
    for (const upstream of Object.values(this.upstream)) await upstream.close();
    await this.store.database.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What the store knows of a key's calls, once receipts have arrived. */
export async function callsOf({ storage }: Store, keyId: string): Promise<number> {
  const rows = await storage.receipts.usage({ by: [], sinceMs: null, untilMs: null, keyId, model: null, channel: null });
  return rows.reduce((sum, row) => sum + row.calls, 0);
}

/** As a key would be, if anybody had made it. */
export function inventedKey(): MadeKey {
  const { token, publicId } = makeToken((bytes) => crypto.getRandomValues(new Uint8Array(bytes)));
  return { id: publicId, token };
}

/** A key in the store, made by somebody else than the gateways. */
export async function makeKey(
  { storage, masterKey: secrets }: Store,
  limits: Partial<Limits> = {},
  more: { readonly expiresMs?: number; readonly group?: string } = {},
  { id: publicId, token }: MadeKey = inventedKey(),
): Promise<MadeKey> {
  const key = {
    ...newKey,
    name: publicId,
    limits: { ...unlimited, ...limits },
    ...more,
  };
  await storage.keys.create(publicId, key, { digest: secrets.digest(token), last4: token.slice(-4) }, ben);
  return { id: publicId, token };
}

/** A key in each of two teams of one organisation. The ids of the groups begin with `grp_` and its name. */
export async function makeCompany(
  store: Store,
  name: string,
  limits: Partial<Limits>,
  ofTeams: Partial<Limits> = {},
): Promise<readonly MadeKey[]> {
  const { groups } = store.storage;
  await groups.create(`grp_${name}`, newGroup(name, { kind: "organisation", limits }), [], ben);
  const inTeam = async (team: string): Promise<MadeKey> => {
    const id = `grp_${name}${team}`;
    await groups.create(id, newGroup(`${name}-${team}`, { kind: "team", parent: `grp_${name}`, limits: ofTeams }), [], ben);
    return makeKey(store, {}, { group: id });
  };
  return [await inTeam("one"), await inTeam("two")];
}

/**
 * Asks all of them, by so many clients each and one call after another, until the time is over or somebody has had enough. The time
 * of whoever can have enough is longer where the machine is busy.
 */
export async function offer(
  gateways: readonly { readonly url: string }[],
  key: MadeKey,
  { clients, forMs, enough, restMs = 0, ...call }: OfferOptions,
): Promise<readonly TimedReply[]> {
  const replies: TimedReply[] = [];
  const beganMs = performance.now();
  const isOver = (): boolean => {
    const passedMs = performance.now() - beganMs;
    return enough === undefined ? passedMs >= forMs : enough(replies) || (passedMs >= forMs && passedMs >= slowed(forMs));
  };
  const client = async (gateway: { readonly url: string }): Promise<void> => {
    while (!isOver()) {
      replies.push(await timed(gateway, key, call.body, call.options));
      if (restMs > 0) await Bun.sleep(restMs);
    }
  };
  await Promise.all(gateways.flatMap((gateway) => Array.from({ length: clients }, () => client(gateway))));
  return replies;
}

export interface OfferOptions {
  readonly clients: number;
  readonly forMs: number;
  readonly enough?: (replies: readonly TimedReply[]) => boolean;
  /** How long each client waits between its calls. Default: not at all. */
  readonly restMs?: number;
  readonly body?: Record<string, unknown>;
  readonly options?: ChatOptions;
}

export interface TimedReply extends ChatReply {
  readonly tookMs: number;
}

export async function timed(
  gateway: { readonly url: string },
  { token }: MadeKey,
  body: Record<string, unknown> = {},
  options: ChatOptions = {},
): Promise<TimedReply> {
  const beganMs = performance.now();
  const reply = await chat(gateway, body, { key: token, ...options });
  return { ...reply, tookMs: performance.now() - beganMs };
}

export function opened(
  gateway: { readonly url: string },
  { token }: MadeKey,
  body: Record<string, unknown>,
  options: ChatOptions = {},
): Promise<ChatCall> {
  return openChat(gateway, body, { key: token, stream: true, ...options });
}

/** How many of each status, and of each code of an error. */
export function tally(replies: readonly ChatReply[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { status, error } of replies) {
    const name = error === null ? String(status) : `${status} ${error.code ?? error.type}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

/**
 * Opens streams over the gateways in turn, and says how each was answered. None of them ends by itself, so that no place is used twice
 * however long it takes to open them; then their clients leave.
 */
export async function tallyAtOnce(
  gateways: readonly { readonly url: string }[],
  key: MadeKey,
  calls: number,
): Promise<Readonly<Record<string, number>>> {
  return (await admittedAtOnce(gateways, key, calls)).counts;
}

/** The same, with how long it took until all of them were admitted or refused. */
export async function admittedAtOnce(
  gateways: readonly { readonly url: string }[],
  key: MadeKey,
  calls: number,
): Promise<{ readonly counts: Readonly<Record<string, number>>; readonly tookMs: number }> {
  const beganMs = performance.now();
  const opening = Array.from({ length: calls }, (_, at) =>
    opened(gateways[at % gateways.length]!, key, { x_tokens: 1_000, x_pace_ms: 60 }),
  );
  const streams = await Promise.all(opening);
  await Promise.all(streams.map(({ untilHead }) => untilHead(slowed(20_000))));
  const tookMs = performance.now() - beganMs;
  const admitted = streams.filter(({ response }) => response.status === 200);
  const refused = streams.filter((stream) => !admitted.includes(stream)).map(({ reply }) => reply);
  const counts = { ...tally(await Promise.all(refused)), "200": admitted.length };
  for (const { abort } of admitted) abort();
  await Promise.all(admitted.map(({ ended }) => ended));
  return { counts, tookMs };
}

export function count(replies: readonly ChatReply[], status: number): number {
  return replies.filter((reply) => reply.status === status).length;
}

/** The share-th of the times, such as 0.99. */
export function quantile(replies: readonly TimedReply[], share: number): number {
  const times = replies.map(({ tookMs }) => tookMs).toSorted((one, other) => one - other);
  return times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN;
}

/**
 * Hardly anybody waits longer for a lost store than the slowest did without one. The few that chance keeps waiting on two cores are bounded too: who
 * waits for the store waits for a second and more.
 */
export function expectNoLater(replies: readonly TimedReply[], slowestMs: number): void {
  expect(quantile(replies, 0.97)).toBeLessThanOrEqual(slowed(slowestMs + 20));
  expect(quantile(replies, 0.99)).toBeLessThanOrEqual(slowed(slowestMs + 100));
}

export async function degraded({ url }: { readonly url: string }): Promise<readonly string[]> {
  const ready = await rawRequest(`${url}/readyz`, { timeoutMs: 2_000 });
  if (ready.status !== 200) throw new Error(`not ready: ${ready.status}`);
  return (ready.json() as { readonly degraded?: readonly string[] }).degraded ?? [];
}

/** The metrics of one whose clients' listener shows them to everybody (`openMetrics`). */
export async function exposed({ url }: { readonly url: string }): Promise<readonly ExposedFamily[]> {
  const { status, text } = await rawRequest(`${url}/metrics`, { timeoutMs: slowed(2_000) });
  if (status !== 200) throw new Error(`no metrics: ${status}`);
  return parseExposition(text);
}

export const openMetrics = { metrics: { public: true, data_port: true } };

/** The most attempts that an upstream had at the same time. */
export function mostAtOnce(attempts: Replicas["attempts"]): number {
  const moments = attempts.flatMap(({ at, closedAt }) => [
    { at, by: 1 },
    { at: closedAt ?? Infinity, by: -1 },
  ]);
  let now = 0;
  let most = 0;
  for (const { by } of moments.toSorted((one, other) => one.at - other.at || one.by - other.by)) most = Math.max(most, (now += by));
  return most;
}
