import {
  minute,
  slotsOf,
  slotWaitMs,
  type CountCorrection,
  type SlotLease,
  type DistributedCounts,
  type ReleasedSlots,
  type TakeResult,
  type CountRequest,
} from "../../limits/distributed-counts.ts";
import { rootOfLimit } from "../../limits/limit-id.ts";
import type { WindowSpan } from "../../limits/sliding-counter.ts";
import { KeyedBatches, TurnBatch, type KeyedValues } from "./keyed-batches.ts";
import { runOnTypedKeys, type TypedKey } from "./typed-keys.ts";
import type { LinkSend, RedisLink } from "./link.ts";
import { heartbeatScript, correctScript, forgetScript, releaseScript, renewScript, takeScript } from "./scripts.ts";

export interface RedisCountsOptions {
  /** The prefix of all keys in Redis, so that two installations can use one server. */
  readonly prefix?: string;
  readonly span?: WindowSpan;
}

/**
 * Counts in Redis or Valkey. Every Redis key contains the root of its limit in braces (a hash tag), so that all counts of one call,
 * those of its groups included, are on one node of a cluster. What calls of many keys leave behind, such as free slots, is sent in one
 * command; on a cluster, in one for each root.
 */
export class RedisCounts implements DistributedCounts {
  readonly releasesInPassing = true;
  private readonly prefix: string;
  private readonly span: WindowSpan;
  /** The name the server gave its counts when this process last connected. */
  private named: string | null = null;
  /** Called when the server has lost all counts since then: it was restarted empty, or it is another server. */
  onEmptied: () => void = () => {};
  private readonly batches: KeyedBatches;
  private readonly releases: TurnBatch<KeyedValues>;
  private readonly corrections: TurnBatch<KeyedValues>;

  constructor(
    private readonly link: RedisLink,
    { prefix = "sluice:", span = minute }: RedisCountsOptions = {},
  ) {
    this.prefix = prefix;
    this.span = span;
    link.greeting = (send) => this.greet(send);
    this.batches = new KeyedBatches(link);
    this.releases = new TurnBatch(async (items) => this.batches.run(releaseScript, [], items));
    this.corrections = new TurnBatch(async (items) => this.batches.run(correctScript, [span.slotMs, span.slots], items));
  }

  async take(
    requests: readonly CountRequest[],
    leases: readonly SlotLease[],
    released: readonly ReleasedSlots[] = [],
  ): Promise<TakeResult> {
    const { slotMs, slots } = this.span;
    const values: (string | number)[] = [slotMs, slots, requests.length, leases.length];
    for (const { limit, need, wish, sharers } of requests) values.push(limit, need, wish, sharers);
    for (const { limit, ttlMs, call, more = [] } of leases) values.push(limit, ttlMs, 1 + more.length, call, ...more);
    const names = [...requests.map(({ id }) => this.countKey(id)), ...leases.map(({ id }) => this.slotsKey(id))];
    const reply = await this.batches.runWith(
      takeScript,
      { keys: names, values },
      released.flatMap(({ id, calls }) => this.releasedSlots(id, calls)),
      releaseScript,
    );
    return takenOf(reply, requests, leases);
  }

  async correct(id: string, corrections: readonly CountCorrection[]): Promise<void> {
    const changes = corrections.flatMap(({ slot, ago = 0, by }) => [slot ?? (ago > 0 ? -ago : ""), by]);
    await this.corrections.add([{ key: this.countKey(id), root: rootOfLimit(id), values: [corrections.length, ...changes] }]);
  }

  async renew(leases: readonly SlotLease[]): Promise<void> {
    const sorted = Map.groupBy(leases, ({ id, ttlMs }) => `${ttlMs} ${id}`).values();
    const items = [...sorted].flatMap((alike) => {
      const { id, ttlMs } = alike[0]!;
      return batches(alike.map(({ call }) => call)).map((calls): KeyedValues => ({
        key: this.slotsKey(id),
        root: rootOfLimit(id),
        values: [ttlMs, calls.length, ...calls],
      }));
    });
    await this.batches.run(renewScript, [], items);
  }

  async release(id: string, calls: readonly string[]): Promise<void> {
    await this.releases.add(this.releasedSlots(id, calls));
  }

  async heartbeat(process: string, withinMs: number): Promise<number> {
    const names: readonly TypedKey[] = [{ name: `${this.prefix}processes`, kind: "zset" }];
    return whole(await runOnTypedKeys(this.link, heartbeatScript, names, [process, withinMs]));
  }

  async leave(process: string): Promise<void> {
    await this.link.send("ZREM", [`${this.prefix}processes`, process]);
  }

  /**
   * Nobody knows in which limits an ended process had slots, so that all names are searched. That happens only when one has died. On a
   * cluster only the node behind this connection is searched, and the other slots expire.
   */
  async forget(process: string): Promise<void> {
    await this.leave(process);
    let cursor = "0";
    do {
      const reply = await this.link.send("SCAN", [cursor, "MATCH", `${this.prefix}{*}:places:*`, "COUNT", String(scanCount)]);
      const [next, found] = Array.isArray(reply) ? (reply as readonly unknown[]) : [];
      if (typeof next !== "string" || !Array.isArray(found)) throw unexpected(reply);
      const keys = found
        .filter((name): name is string => typeof name === "string")
        .map((name): KeyedValues => ({ key: { name, kind: "zset" }, root: hashTag.exec(name)?.[0] ?? name, values: [] }));
      await Promise.all(batches(keys, keysPerSearch).map(async (some) => this.batches.run(forgetScript, [slotsOf(process)], some)));
      cursor = next;
    } while (cursor !== "0");
  }

  close(): void {
    this.link.close();
  }

  /**
   * A restart closes all connections, so a new connection is the time to notice one. These commands are sent before any other, and
   * no call waits for their replies.
   */
  private async greet(send: LinkSend): Promise<void> {
    const key = `${this.prefix}counts`;
    const [, found] = await Promise.allSettled([send("SET", [key, crypto.randomUUID(), "NX"]), send("GET", [key])]);
    if (found.status === "rejected" && String(found.reason).includes("WRONGTYPE")) await send("DEL", [key]);
    if (found.status === "rejected" || typeof found.value !== "string") return;
    const isOtherServer = this.named !== null && this.named !== found.value;
    this.named = found.value;
    if (isOtherServer) this.onEmptied();
  }

  private countKey(id: string): TypedKey {
    return { name: this.name("rate", id), kind: "hash" };
  }

  private slotsKey(id: string): TypedKey {
    return { name: this.name("places", id), kind: "zset" };
  }

  private releasedSlots(id: string, calls: readonly string[]): readonly KeyedValues[] {
    const key = this.slotsKey(id);
    return batches(calls).map((some) => ({ key, root: rootOfLimit(id), values: [some.length, ...some] }));
  }

  private name(what: string, id: string): string {
    // A brace inside the id would end the hash tag early.
    return `${this.prefix}{${rootOfLimit(id).replaceAll(/[{}]/g, "_")}}:${what}:${id}`;
  }
}

function takenOf(reply: unknown, requests: readonly CountRequest[], leases: readonly SlotLease[]): TakeResult {
  if (!Array.isArray(reply)) throw unexpected(reply);
  const [verdict, second, ...rest] = reply.map(whole);
  if (verdict === 1 && second !== undefined && rest.length === 2 * requests.length + leases.length) {
    const granted = requests.map(({ id }, at) => ({ id, amount: rest[2 * at]!, slot: second, remaining: rest[2 * at + 1]! }));
    return { ok: true, granted, slots: rest.slice(2 * requests.length) };
  }
  const [waitMs, remaining] = rest;
  if (verdict !== 0 || second === undefined || waitMs === undefined || remaining === undefined) throw unexpected(reply);
  const request = requests[second - 1];
  if (request !== undefined) return { ok: false, short: request.id, waitMs, remaining };
  const lease = leases[second - 1 - requests.length];
  if (lease === undefined) throw unexpected(reply);
  return { ok: false, short: lease.id, waitMs: slotWaitMs, remaining };
}

function whole(value: unknown): number {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw unexpected(value);
}

function unexpected(reply: unknown): Error {
  return new Error(`Redis sent an unexpected reply: ${JSON.stringify(reply)?.slice(0, 100)}`);
}

function batches<Item>(items: readonly Item[], size = callsPerCommand): readonly (readonly Item[])[] {
  const count = Math.ceil(items.length / size);
  return Array.from({ length: count }, (_, at) => items.slice(at * size, (at + 1) * size));
}

const hashTag = /\{[^}]*\}/;
const scanCount = 1_000;
const callsPerCommand = 500;
/** All slots of these keys are looked at in one command, which must not keep the server busy for long. */
const keysPerSearch = 100;
