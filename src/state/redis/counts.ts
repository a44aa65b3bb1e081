import {
  keyOf,
  minute,
  placeWaitMs,
  type Correction,
  type CountSpan,
  type Hold,
  type DistributedCounts,
  type Taken,
  type Want,
} from "../../limits/distributed-counts.ts";
import { runOnTypedKeys, type TypedKey } from "./typed-keys.ts";
import type { LinkSend, RedisLink } from "./link.ts";
import { attendScript, correctScript, keepScript, takeScript } from "./scripts.ts";

export interface RedisCountsOptions {
  /** What all names in Redis begin with: two installations may use one server. */
  readonly prefix?: string;
  readonly span?: CountSpan;
}

/** Counts in Redis or Valkey. Every name has the id of its key in braces, so that all of one call lie on one node of a cluster. */
export class RedisCounts implements DistributedCounts {
  private readonly prefix: string;
  private readonly span: CountSpan;
  /** What the counts went by when this process last connected. */
  private named: string | null = null;
  /** Is told when the server has lost everything since: it was restarted empty, or is another one. */
  onEmptied: () => void = () => {};

  constructor(
    private readonly link: RedisLink,
    { prefix = "sluice:", span = minute }: RedisCountsOptions = {},
  ) {
    this.prefix = prefix;
    this.span = span;
    link.greeting = (send) => this.greet(send);
  }

  async take(wants: readonly Want[], hold: Hold | null): Promise<Taken> {
    const { slotMs, slots } = this.span;
    const values: (string | number)[] = [slotMs, slots, wants.length];
    for (const { limit, need, wish, sharers } of wants) values.push(limit, need, wish, sharers);
    if (hold !== null) values.push(hold.limit, hold.lifeMs, hold.call, ...(hold.more ?? []));
    const names = wants.map(({ id }) => this.rate(id));
    if (hold !== null) names.push(this.places(hold.id));
    return takenOf(await runOnTypedKeys(this.link, takeScript, names, values), wants, hold);
  }

  async correct(id: string, corrections: readonly Correction[]): Promise<void> {
    const changes = corrections.flatMap(({ slot, ago = 0, by }) => [slot ?? (ago > 0 ? -ago : ""), by]);
    await runOnTypedKeys(this.link, correctScript, [this.rate(id)], [this.span.slotMs, this.span.slots, ...changes]);
  }

  async keep(holds: readonly Hold[]): Promise<void> {
    const sorted = Map.groupBy(holds, ({ id, lifeMs }) => `${lifeMs} ${id}`).values();
    await Promise.all(
      [...sorted].flatMap((alike) => {
        const { id, lifeMs } = alike[0]!;
        return chunks(alike.map(({ call }) => call)).map((calls) =>
          runOnTypedKeys(this.link, keepScript, [this.places(id)], [lifeMs, ...calls]),
        );
      }),
    );
  }

  async release(id: string, calls: readonly string[]): Promise<void> {
    await Promise.all(chunks(calls).map((some) => this.link.send("ZREM", [this.places(id).name, ...some])));
  }

  async attend(process: string, withinMs: number): Promise<number> {
    const names: readonly TypedKey[] = [{ name: `${this.prefix}processes`, kind: "zset" }];
    return whole(await runOnTypedKeys(this.link, attendScript, names, [process, withinMs]));
  }

  async leave(process: string): Promise<void> {
    await this.link.send("ZREM", [`${this.prefix}processes`, process]);
  }

  close(): void {
    this.link.close();
  }

  /**
   * A server is only restarted with its connections lost, so that this is the moment to notice. It is asked before anything else and
   * answers first, so that nobody has to wait for it.
   */
  private async greet(send: LinkSend): Promise<void> {
    const key = `${this.prefix}counts`;
    const [, found] = await Promise.allSettled([send("SET", [key, crypto.randomUUID(), "NX"]), send("GET", [key])]);
    if (found.status === "rejected" && String(found.reason).includes("WRONGTYPE")) await send("DEL", [key]);
    if (found.status === "rejected" || typeof found.value !== "string") return;
    const isOther = this.named !== null && this.named !== found.value;
    this.named = found.value;
    if (isOther) this.onEmptied();
  }

  private rate(id: string): TypedKey {
    return { name: this.name("rate", id), kind: "hash" };
  }

  private places(id: string): TypedKey {
    return { name: this.name("places", id), kind: "zset" };
  }

  private name(what: string, id: string): string {
    // A brace of its own would end the tag early.
    return `${this.prefix}{${keyOf(id).replaceAll(/[{}]/g, "_")}}:${what}:${id}`;
  }
}

function takenOf(reply: unknown, wants: readonly Want[], hold: Hold | null): Taken {
  if (!Array.isArray(reply)) throw strange(reply);
  const [verdict, second, third, ...rest] = reply.map(whole);
  if (verdict === 1 && second !== undefined && third !== undefined && rest.length === 2 * wants.length) {
    const granted = wants.map(({ id }, at) => ({ id, amount: rest[2 * at]!, slot: second, remaining: rest[2 * at + 1]! }));
    return { ok: true, granted, places: third };
  }
  const [waitMs, remaining] = [third, ...rest];
  if (verdict !== 0 || second === undefined || waitMs === undefined || remaining === undefined) throw strange(reply);
  const want = wants[second - 1];
  if (want !== undefined) return { ok: false, short: want.id, waitMs, remaining };
  if (hold === null) throw strange(reply);
  return { ok: false, short: hold.id, waitMs: placeWaitMs, remaining };
}

function whole(value: unknown): number {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw strange(value);
}

function strange(reply: unknown): Error {
  return new Error(`Redis answered something that was not asked for: ${JSON.stringify(reply)?.slice(0, 100)}`);
}

function chunks(calls: readonly string[]): readonly (readonly string[])[] {
  const count = Math.ceil(calls.length / callsAtOnce);
  return Array.from({ length: count }, (_, at) => calls.slice(at * callsAtOnce, (at + 1) * callsAtOnce));
}

const callsAtOnce = 500;
