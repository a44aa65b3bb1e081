// Needs: quiet, servers. It mostly waits for leases to end; a tenth of one core is the most it uses.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { DistributedCounts } from "../../src/limits/distributed-counts.ts";
import { ListedReservationRequest, type Claim, type ReservationResult, type SlotLimit } from "../../src/limits/rate-limit-store.ts";
import { RedisCounts } from "../../src/state/redis/counts.ts";
import { RedisLink } from "../../src/state/redis/link.ts";
import { eventually } from "../support/eventually.ts";
import { startFaultProxy, type FaultProxy } from "../support/fault-proxy.ts";
import { everyMs, heldUpWithinMs } from "../support/held-up.ts";
import {
  admitted,
  counted,
  granted,
  limitRig,
  slotClaim,
  requests,
  span,
  tokens,
  type LimitRig,
  type LimitRigOptions,
} from "../support/joint-rig.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startRedis } from "../support/servers/redis.ts";
import { reserve } from "../support/reserve.ts";
import { slowed } from "../support/slowed.ts";

const found = await startRedis();
const noRedis = remark(found);
const redis = present(found);
let serial = 0;
const links: RedisLink[] = [];
const rigs: LimitRig[] = [];

afterEach(async () => {
  await Promise.all(rigs.splice(0).map(async ({ rates }) => rates.stop()));
  for (const link of links.splice(0)) link.close();
});

afterAll(async () => {
  if (noRedis === "") await redis.stop();
});

function newKey(): string {
  return `lease-${(serial += 1)}`;
}

/** Where a store is not lost, one that a busy machine keeps waiting must not be taken for it. */
const patientMs = 5_000;
/** As the gateway has it. */
const deadlineMs = 100;

function overRedis(
  options: Partial<LimitRigOptions> & { readonly port?: number } = {},
): LimitRig & { readonly counts: DistributedCounts & { asked: number } } {
  const { slotMs = 1_000, port = redis.port } = options;
  const link = new RedisLink({ url: `redis://127.0.0.1:${port}` });
  links.push(link);
  const real = new RedisCounts(link, { span: span(slotMs) });
  const counts = counted(real);
  const made = limitRig({ counts, drop: () => link.drop(), deadlineMs: patientMs, ...options });
  real.onEmptied = () => made.rates.emptied();
  rigs.push(made);
  return { ...made, counts };
}

/** Offers calls at a steady pace, each to the process that `pick` names, and tells which were admitted when. */
async function offered(
  pace: { readonly perSecond: number; readonly forMs: number },
  send: (call: number) => Promise<boolean>,
): Promise<boolean[]> {
  const beganMs = performance.now();
  const results: Promise<boolean>[] = [];
  while (performance.now() - beganMs < pace.forMs) {
    const due = Math.floor(((performance.now() - beganMs) / 1_000) * pace.perSecond);
    while (results.length < due) results.push(send(results.length));
    await Bun.sleep(1);
  }
  return Promise.all(results);
}

/** 70 % for the first, the rest for the three others. */
function skewed(call: number): number {
  return call % 10 < 7 ? 0 : 1 + (call % 3);
}

describe.skipIf(noRedis !== "")(`leases of four processes, 70 % of the calls at one${noRedis}`, () => {
  const slotMs = 50;
  const windowMs = 61 * slotMs;

  test("admit the limit, give or take five in a hundred, of twice as many calls, and ask seldom", async () => {
    const processes = Array.from({ length: 4 }, () => overRedis({ slotMs, processes: 4 }));
    const key = newKey();
    const limit = 1_500;
    const results = await offered({ perSecond: (2 * limit * 1_000) / windowMs, forMs: windowMs - 100 }, async (call) =>
      admitted(processes[skewed(call)]!.rates, [requests(key, limit)]),
    );
    const through = results.filter(Boolean).length;
    expect(through).toBeGreaterThanOrEqual(limit * 0.95);
    expect(through).toBeLessThanOrEqual(limit * 1.05);
    const asked = processes.reduce((sum, { counts }) => sum + counts.asked, 0);
    expect(asked / results.length).toBeLessThan(0.35);
  });

  test("refuse no call while there is room for all, in requests and in tokens", async () => {
    const processes = Array.from({ length: 4 }, () => overRedis({ slotMs, processes: 4 }));
    const key = newKey();
    const results = await offered({ perSecond: 400, forMs: 1_500 }, async (call) =>
      admitted(processes[skewed(call)]!.rates, [requests(key, 1_000), tokens(key, 200_000, 100 + (call % 100))]),
    );
    expect(results.length).toBeGreaterThan(500);
    expect(results.filter((ok) => !ok)).toHaveLength(0);
  });
});

describe.skipIf(noRedis !== "")(`limits${noRedis}`, () => {
  test("that are small are exact: each call asks", async () => {
    const processes = Array.from({ length: 4 }, () => overRedis({ processes: 4 }));
    const key = newKey();
    const results = await Promise.all(
      Array.from({ length: 120 }, async (_, call) => admitted(processes[call % 4]!.rates, [requests(key, 40)])),
    );
    expect(results.filter(Boolean)).toHaveLength(40);
  });

  // Whoever waits too long for its turn at the store goes on unseen: five in a hundred at the most, and fewer than the limit perhaps.
  test.each([
    ["exactly while the store answers", patientMs, 190, 200],
    ["and exceeded by no more than a store that hesitates allows", deadlineMs, 0, 210],
  ])("are kept in a burst, whatever is leased: %s", async (_, patienceMs, least, most) => {
    // So that no lease is over before its answer is read.
    const slotMs = 20 * patienceMs;
    const processes = Array.from({ length: 4 }, () => overRedis({ processes: 4, slotMs, deadlineMs: patienceMs }));
    const key = newKey();
    const claims = [requests(key, 200), tokens(key, 1_000_000, 10)];
    const results = await Promise.all(Array.from({ length: 800 }, async (_call, call) => admitted(processes[skewed(call)]!.rates, claims)));
    expect(results.filter(Boolean).length).toBeLessThanOrEqual(most);
    expect(results.filter(Boolean).length).toBeGreaterThanOrEqual(least);
  });

  test("answer at once while a lease lasts", async () => {
    const { rates, counts } = overRedis();
    const key = newKey();
    const claims = [requests(key, 100_000)];
    for (let call = 0; call < 20; call += 1) await admitted(rates, claims);
    await admitted(rates, claims);
    const before = counts.asked;
    const reservation = reserve(rates, claims, null);
    expect(reservation).not.toBeInstanceOf(Promise);
    expect(counts.asked).toBe(before);
  });

  test("are full for all processes no longer than an unused lease lives", async () => {
    const [busy, other] = [overRedis({ processes: 1 }), overRedis({ processes: 1 })];
    const key = newKey();
    await Promise.all(Array.from({ length: 30 }, async () => admitted(busy.rates, [requests(key, 100)])));
    for (let call = 0; call < 10; call += 1) await admitted(busy.rates, [requests(key, 100)]);
    await eventually(
      "the other gets all the rest",
      async () => {
        const reservation = await reserve(other.rates, [{ ...requests(key, 100), amount: 60 }], null);
        if (reservation.ok) reservation.settle([60]);
        return reservation.ok;
      },
      2_000,
    );
  });

  test("count what a call used beyond its claim for all processes, and free what it did not need for all", async () => {
    const [one, other] = [overRedis({ processes: 2 }), overRedis({ processes: 2 })];
    const key = newKey();
    const ask = async (amount: number): Promise<boolean> => {
      const reservation = await reserve(other.rates, [tokens(key, 1_000, amount)], null);
      if (reservation.ok) reservation.settle([0]);
      return reservation.ok;
    };
    const much = granted(await reserve(one.rates, [tokens(key, 1_000, 900)], null));
    expect(await ask(200)).toBe(false);
    much.settle([100]);
    await eventually("what was not used is free", async () => ask(850), 2_000);
    const little = granted(await reserve(one.rates, [tokens(key, 1_000, 10)], null));
    little.settle([890]);
    await eventually("what was used beyond is counted", async () => !(await ask(50)), 2_000);
  });

  test("survive figures that make no sense", async () => {
    const { rates } = overRedis();
    const key = newKey();
    const reservation = granted(await reserve(rates, [tokens(key, 1_000, Number.NaN), requests(key, 1_000)], null));
    reservation.settle([-5, Infinity]);
    expect(() => reservation.settle([1, 1])).toThrow("settled twice");
    const never = await reserve(rates, [tokens(key, 1_000, 1_001)], null);
    expect(never).toMatchObject({ ok: false, shortId: `${key} tpm`, waitMs: Infinity });
    expect(await reserve(rates, [], null)).toMatchObject({ ok: true });
  });

  test("are known without asking, as of the last answer", async () => {
    const { rates, counts } = overRedis();
    const key = newKey();
    const claim = requests(key, 3);
    expect(rates.status(claim)).toMatchObject({ remaining: 3, waitMs: 0 });
    for (let call = 0; call < 3; call += 1) expect(await admitted(rates, [claim])).toBe(true);
    const refused = await reserve(rates, [claim], null);
    expect([refused.ok, refused.remaining(0)]).toEqual([false, 0]);
    const asked = counts.asked;
    expect(rates.status(claim).waitMs).toBeGreaterThan(50_000);
    expect(await reserve(rates, [claim], null)).toMatchObject({ ok: false });
    expect(counts.asked).toBe(asked);
    await Bun.sleep(60);
    // Somebody may have given some back since.
    expect(rates.status(claim)).toMatchObject({ waitMs: 0 });
  });

  test("come out even: what settles as nothing leaves nothing behind", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ who: fc.nat(1), amount: fc.nat(300), truth: fc.nat(600), waits: fc.boolean() }), {
          minLength: 1,
          maxLength: 30,
        }),
        async (calls) => {
          const pair = [overRedis({ processes: 2 }), overRedis({ processes: 2 })] as const;
          const key = newKey();
          const limit = 100_000;
          let truth = 0;
          const open: (() => void)[] = [];
          for (const call of calls) {
            const reservation = granted(await reserve(pair[call.who === 0 ? 0 : 1].rates, [tokens(key, limit, call.amount)], null));
            truth += call.truth;
            open.push(() => reservation.settle([call.truth]));
            if (!call.waits) for (const settle of open.splice(0)) settle();
          }
          for (const settle of open) settle();
          await Promise.all(pair.map(async ({ rates }) => rates.stop()));
          const [{ counts }] = pair;
          const taken = await counts.take([{ id: `${key} tpm`, limit, need: 0, wish: 0, sharers: 1 }], []);
          expect(taken).toMatchObject({ ok: true, granted: [{ remaining: limit - truth }] });
        },
      ),
      { numRuns: 25 },
    );
  });

  test("are remembered for a bounded number of keys", async () => {
    const { rates } = overRedis({ leasesMax: 10 });
    for (let key = 0; key < 40; key += 1) expect(await admitted(rates, [requests(newKey(), 1_000)])).toBe(true);
    expect(rates.leasesKnown).toBeLessThanOrEqual(10);
  });
});

describe.skipIf(noRedis !== "")(`limits that keys share${noRedis}`, () => {
  const ask = ({ rates }: LimitRig, claims: readonly Claim[], slots: readonly SlotLimit[]): Promise<ReservationResult> =>
    Promise.resolve(rates.reserve(new ListedReservationRequest(claims, slots, "call")));

  test("admit exactly what the smallest level has, whichever keys and processes ask", async () => {
    const group = newKey();
    const three = [1, 2, 3].map(() => overRedis({ processes: 3, deadlineMs: patientMs }));
    const answers = await Promise.all(
      Array.from({ length: 120 }, (_, call) =>
        ask(three[call % 3]!, [requests(`${group}>key-${call % 8}`, 400), requests(`${group}>team`, 40), requests(group, 900)], []),
      ),
    );
    expect(answers.filter(({ ok }) => ok)).toHaveLength(40);
    for (const answer of answers) if (!answer.ok) expect(answer.shortId).toBe(`${group}>team rpm`);
  });

  test("never run more calls at the same time than a group or a key has slots, and free all of them", async () => {
    const group = newKey();
    const three = [1, 2, 3].map(() => overRedis({ processes: 3, deadlineMs: patientMs }));
    const slotsOf = (call: number): readonly SlotLimit[] => [
      { id: `${group}>key-${call % 4} slots`, limit: 4 },
      { id: `${group} slots`, limit: 10 },
    ];
    const answers = await Promise.all(Array.from({ length: 60 }, (_, call) => ask(three[call % 3]!, [], slotsOf(call))));
    const running = answers.flatMap((answer, call) => (answer.ok ? [{ answer, key: call % 4 }] : []));
    expect(running.length).toBeLessThanOrEqual(10);
    expect(running.length).toBeGreaterThan(0);
    for (const key of [0, 1, 2, 3]) expect(running.filter((one) => one.key === key).length).toBeLessThanOrEqual(4);
    for (const { answer } of running) answer.settle([]);
    await eventually("a slot is free again", async () => {
      const answer = await ask(three[0]!, [], slotsOf(0));
      if (answer.ok) answer.settle([]);
      return answer.ok;
    });
  });

  test("make calls of other keys wait for one answer, and not for each other", async () => {
    const group = newKey();
    const rig = overRedis({ deadlineMs: patientMs });
    const calls = 200;
    const before = rig.counts.asked;
    const answers = await Promise.all(
      Array.from({ length: calls }, (_, call) => ask(rig, [requests(`${group}>key-${call % 2}`, 100_000), requests(group, 100_000)], [])),
    );
    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect(rig.counts.asked - before).toBeLessThan(calls / 4);
  });
});

describe.skipIf(noRedis !== "")(`calls at the same time${noRedis}`, () => {
  test("are never more than the limit over all processes, and a slot is free at once when its call ends", async () => {
    const processes = Array.from({ length: 4 }, () => overRedis({ processes: 4 }));
    const key = newKey();
    let running = 0;
    let most = 0;
    let through = 0;
    await Promise.all(
      Array.from({ length: 200 }, async (_, call) => {
        const { rates } = processes[call % 4]!;
        await Bun.sleep(Math.random() * 300);
        const reservation = await reserve(rates, [requests(key, 10_000)], slotClaim(key, 7, `${key}-${call}`));
        if (!reservation.ok) return;
        through += 1;
        running += 1;
        most = Math.max(most, running);
        await Bun.sleep(Math.random() * 20);
        running -= 1;
        reservation.settle([1]);
      }),
    );
    expect(most).toBeLessThanOrEqual(7);
    expect(through).toBeGreaterThan(20);
    await eventually("all slots are free", async () => {
      const reservation = await reserve(processes[0]!.rates, [], slotClaim(key, 1, `${key}-last`));
      if (reservation.ok) reservation.settle([]);
      return reservation.ok;
    });
  });

  test.each([1, 10])("are exactly %d in a burst over four processes, also while the store hesitates", async (limit) => {
    await using proxy = await startFaultProxy({ to: { host: redis.host, port: redis.port } });
    const processes = Array.from({ length: 4 }, () => overRedis({ processes: 4, port: proxy.port, deadlineMs }));
    // Nobody has spoken to it before, and then it takes longer to answer than anybody waits for it.
    proxy.freeze();
    const key = newKey();
    const takings = Array.from({ length: 80 }, async (_, call) =>
      reserve(processes[call % 4]!.rates, [requests(key, 10_000)], slotClaim(key, limit, `${key}-${call}`)),
    );
    await Bun.sleep(2 * deadlineMs);
    proxy.thaw();
    const taken = await Promise.all(takings);
    expect(taken.filter(({ ok }) => ok)).toHaveLength(limit);
    expect(taken.filter((reservation) => !reservation.ok && reservation.shortId !== `${key} slots`)).toEqual([]);
  });

  test("are refused for idle slots only until these are returned, whichever process held them", async () => {
    const processes = Array.from({ length: 4 }, () => overRedis({ processes: 4 }));
    const key = newKey();
    const burst = async (at: number): Promise<readonly ReservationResult[]> =>
      Promise.all(
        Array.from({ length: 20 }, async (_, call) => reserve(processes[at]!.rates, [], slotClaim(key, 12, `${key}-${at}-${call}`))),
      );
    for (const at of [0, 1, 2, 3, 0]) {
      const taken = (await burst(at)).filter(({ ok }) => ok);
      expect(taken).toHaveLength(12);
      // The next one asks at once.
      for (const reservation of taken) granted(reservation).settle([]);
    }
  });

  /** What Redis has executed: all of it, or without what scripts did inside. */
  async function commandsOf(link: RedisLink, counted: RegExp): Promise<number> {
    const stats = String(await link.send("INFO", ["commandstats"]));
    const all = [...stats.matchAll(/cmdstat_(\S+):calls=(\d+)/g)];
    return all.reduce((sum, [, name, calls]) => (counted.test(name!) ? sum + Number(calls) : sum), 0);
  }
  const sent = /^(evalsha|eval)$/;

  test("cost at most one command of Redis for a call, although each call is of another key", async () => {
    const processes = Array.from({ length: 2 }, () => overRedis({ processes: 2 }));
    const link = new RedisLink({ url: redis.url });
    links.push(link);
    const first = await Promise.all(processes.map(async ({ rates }) => reserve(rates, [], slotClaim(newKey(), 5, "first"))));
    for (const reservation of first) granted(reservation).settle([]);
    const before = await commandsOf(link, sent);
    const beganMs = performance.now();
    const client = async (at: number): Promise<void> => {
      for (let call = 0; call < 25; call += 1) {
        const name = newKey();
        const reservation = granted(await reserve(processes[at % 2]!.rates, [], slotClaim(name, 5, name)));
        await Bun.sleep(10);
        reservation.settle([]);
      }
    };
    await Promise.all(Array.from({ length: 16 }, async (_, at) => client(at)));
    const inTime = (await commandsOf(link, sent)) - before;
    expect(inTime).toBeGreaterThanOrEqual(400);
    // Each call asks once, and what no later call returned in passing is returned together, ten times a second at most.
    const tickMs = 100;
    expect(inTime).toBeLessThanOrEqual(400 + 2 * Math.ceil((performance.now() - beganMs) / tickMs));
  });

  test("of four levels cost at most one command of Redis for a call, although each call is of another key of the same groups", async () => {
    const processes = Array.from({ length: 2 }, () => overRedis({ processes: 2 }));
    const link = new RedisLink({ url: redis.url });
    links.push(link);
    // All limits of a tree begin with the name of its root.
    const root = newKey();
    const take = async (at: number, name: string): Promise<Extract<ReservationResult, { ok: true }>> => {
      const levels = [`${name} slots`, "project slots", "team slots", "slots"].map((of, level) => ({
        id: `${root} ${of}`,
        limit: level === 0 ? 5 : 100 * level,
      }));
      return granted(await processes[at % 2]!.rates.reserve(new ListedReservationRequest([], levels, name)));
    };
    for (const at of [0, 1]) (await take(at, newKey())).settle([]);
    const before = await commandsOf(link, sent);
    const beganMs = performance.now();
    const client = async (at: number): Promise<void> => {
      for (let call = 0; call < 25; call += 1) {
        const reservation = await take(at, newKey());
        await Bun.sleep(10);
        reservation.settle([]);
      }
    };
    await Promise.all(Array.from({ length: 16 }, async (_, at) => client(at)));
    const inTime = (await commandsOf(link, sent)) - before;
    // The key's own slot is asked for, and the others go with it. What is returned apart is returned ten times a second at most.
    expect(inTime).toBeGreaterThan(0);
    expect(inTime).toBeLessThanOrEqual(400 + 2 * Math.ceil((performance.now() - beganMs) / 100));
  });

  test("return a slot that is idle with the request of the next call, of whichever key", async () => {
    let nowMs = 1_000;
    const { rates } = overRedis({ nowMs: () => nowMs });
    const link = new RedisLink({ url: redis.url });
    links.push(link);
    const [one, other] = [newKey(), newKey()];
    const held = async (key: string): Promise<unknown> => link.send("ZCARD", [`sluice:{${key}}:places:${key} slots`]);
    granted(await reserve(rates, [], slotClaim(one, 2, "a"))).settle([]);
    expect(await held(one)).toBe(1);
    nowMs += 90;
    granted(await reserve(rates, [], slotClaim(other, 2, "b"))).settle([]);
    expect([await held(one), await held(other)]).toEqual([0, 1]);
  });

  test("work on a node of a cluster, which rejects commands for the keys of several nodes", async () => {
    const node = await startRedis({ "cluster-enabled": "yes" });
    if ("skipped" in node || !node.controlled) return;
    await using server = node;
    const link = new RedisLink({ url: server.url });
    links.push(link);
    await link.send("CLUSTER", ["ADDSLOTSRANGE", "0", "16383"]);
    await eventually("the node serves all slots", async () => String(await link.send("CLUSTER", ["INFO"])).includes("cluster_state:ok"));
    let nowMs = 1_000;
    const { rates } = overRedis({ port: server.port, nowMs: () => nowMs });
    const keys = [newKey(), newKey(), newKey()];
    for (const key of keys) {
      granted(await reserve(rates, [requests(key, 100)], slotClaim(key, 2, key))).settle([0]);
      nowMs += 90;
    }
    await rates.stop();
    for (const key of keys) {
      const [counts, slots] = [`sluice:{${key}}:rate:${key} rpm`, `sluice:{${key}}:places:${key} slots`];
      expect([await link.send("HLEN", [counts]), await link.send("ZCARD", [slots])]).toEqual([0, 0]);
    }
  });

  test("cost far fewer than one command for a call of a busy key, and less than one with what scripts do inside", async () => {
    const link = new RedisLink({ url: redis.url });
    links.push(link);
    const commands = async (): Promise<number> => commandsOf(link, /^(?!info)/);
    const processes = Array.from({ length: 2 }, () => overRedis({ processes: 2 }));
    const key = newKey();
    let calls = 0;
    const client = async (at: number): Promise<void> => {
      for (let call = 0; call < 60; call += 1) {
        const reservation = await reserve(processes[at % 2]!.rates, [requests(key, 100_000)], slotClaim(key, 20, `${key}-${at}-${call}`));
        granted(reservation);
        calls += 1;
        await Bun.sleep(10);
        granted(reservation).settle([1]);
      }
    };
    const before = await commands();
    const sentBefore = await commandsOf(link, sent);
    await Promise.all(Array.from({ length: 10 }, async (_, at) => client(at)));
    expect((await commands()) - before).toBeLessThan(calls);
    expect((await commandsOf(link, sent)) - sentBefore).toBeLessThan(calls / 4);
  });

  test("of one call hold a slot of each limit, also when they are renewed", async () => {
    const key = newKey();
    const [one, other] = [overRedis({ holdMs: 600 }), overRedis({ holdMs: 600 })];
    const rooms = [`${key} concurrency`, `${key} concurrency model-*`] as const;
    const taken = [];
    for (const id of rooms) taken.push(granted(await reserve(one.rates, [], { id, limit: 1, call: "same" })));
    await Bun.sleep(1_100);
    for (const id of rooms) expect((await reserve(other.rates, [], { id, limit: 1, call: "other" })).ok).toBe(false);
    for (const reservation of taken) reservation.settle([]);
    for (const id of rooms) {
      await eventually("it is free", async () => {
        const reservation = await reserve(other.rates, [], { id, limit: 1, call: "other" });
        if (reservation.ok) reservation.settle([]);
        return reservation.ok;
      });
    }
  });

  test("of a process that died free their slots after a while, and those of a running one do not", async () => {
    const key = newKey();
    const [dead, living] = [overRedis({ holdMs: 800 }), overRedis({ holdMs: 800 })];
    granted(await reserve(dead.rates, [], slotClaim(key, 2, `${key}-dead`)));
    const held = granted(await reserve(living.rates, [], slotClaim(key, 2, `${key}-living`)));
    expect((await reserve(living.rates, [], slotClaim(key, 2, `${key}-third`))).ok).toBe(false);
    // It falls silent without a word.
    links[links.length - 2]!.close();
    let third = await reserve(living.rates, [], slotClaim(key, 2, `${key}-third`));
    await eventually(
      "the dead one's slot is free",
      async () => {
        if (!third.ok) third = await reserve(living.rates, [], slotClaim(key, 2, `${key}-third`));
        return third.ok;
      },
      3_000,
    );
    await Bun.sleep(1_300);
    // The living one's is not, though much more than its life has passed.
    const other = overRedis({ holdMs: 800 });
    expect((await reserve(other.rates, [], slotClaim(key, 2, `${key}-fourth`))).ok).toBe(false);
    held.settle([]);
    await eventually("now it is", async () => (await reserve(other.rates, [], slotClaim(key, 2, `${key}-fourth`))).ok);
  });
});

describe.skipIf(noRedis !== "" || !redis.controlled)(`a store that is lost${noRedis}`, () => {
  /** Who waits for the store waits for the deadline; below this it was something else on the machine. */
  const waitsMs = deadlineMs * 0.8;
  let proxy: FaultProxy;

  beforeAll(async () => {
    proxy = await startFaultProxy({ to: { host: redis.host, port: redis.port } });
  });

  afterEach(() => {
    proxy.restore();
  });

  afterAll(async () => {
    await proxy.close();
  });

  interface Stretch {
    readonly fromMs: number;
    readonly toMs: number;
  }

  /** How long each call took, without what the machine took from all of them. */
  async function tookMs(calls: readonly Stretch[]): Promise<readonly number[]> {
    await Bun.sleep(2 * everyMs);
    return calls.map(({ fromMs, toMs }) => toMs - fromMs - heldUpWithinMs(fromMs, toMs));
  }

  /** How long each of many calls in a row took. */
  async function timed(rates: LimitRig["rates"], claims: readonly Claim[], calls: number): Promise<readonly number[]> {
    const made: Stretch[] = [];
    for (let call = 0; call < calls; call += 1) {
      const fromMs = performance.now();
      await admitted(rates, claims);
      made.push({ fromMs, toMs: performance.now() });
    }
    return tookMs(made);
  }

  test("frozen: costs five calls a deadline and the others nothing, and comes back by itself", async () => {
    const { rates, guard } = overRedis({ deadlineMs, skipMs: 400 });
    const key = newKey();
    const claims = [requests(key, 40)];
    await admitted(rates, claims);
    await redis.pause();
    try {
      const took = await timed(rates, claims, 100);
      expect(took.filter((ms) => ms > waitsMs).length).toBeLessThanOrEqual(5);
      expect(Math.max(...took)).toBeLessThan(slowed(200));
      expect(guard.health()).toBe("degraded");
      await Bun.sleep(600);
      // Whether it is back is none of the calls' concern.
      expect(Math.max(...(await timed(rates, claims, 50)))).toBeLessThan(slowed(waitsMs));
    } finally {
      redis.resume();
    }
    await eventually("it is asked again", () => guard.health() === "ok", 3_000);
  });

  test.each([40, 40_000])(
    "frozen under load, a limit of %d: five calls pay the deadline at the most, the others next to nothing",
    async (limit) => {
      const { rates } = overRedis({ deadlineMs, skipMs: 60_000 });
      const key = newKey();
      await admitted(rates, [requests(key, limit)]);
      await redis.pause();
      try {
        const made: Stretch[] = [];
        await offered({ perSecond: 500, forMs: 800 }, async () => {
          const fromMs = performance.now();
          const ok = await admitted(rates, [requests(key, limit)]);
          made.push({ fromMs, toMs: performance.now() });
          return ok;
        });
        const took = await tookMs(made);
        expect(took.length).toBeGreaterThan(200);
        expect(took.filter((ms) => ms > waitsMs).length).toBeLessThanOrEqual(5);
        expect(Math.max(...took)).toBeLessThan(slowed(200));
      } finally {
        redis.resume();
      }
    },
  );

  test.each([
    ["refused", (): void => proxy.refuse()],
    ["cut", (): void => (proxy.cut(), proxy.refuse())],
  ] as const)("%s: fails at once", async (_, fault) => {
    const { rates, guard } = overRedis({ deadlineMs, port: proxy.port, skipMs: 300 });
    const key = newKey();
    await admitted(rates, [requests(key, 40)]);
    fault();
    proxy.cut();
    const took = await timed(rates, [requests(key, 40)], 60);
    expect(Math.max(...took)).toBeLessThan(slowed(waitsMs));
    expect(guard.health()).toBe("degraded");
    proxy.restore();
    await eventually("it is asked again", () => guard.health() === "ok", 3_000);
    expect(await admitted(rates, [requests(newKey(), 40)])).toBe(true);
  });

  test("slow: is treated as lost", async () => {
    const { rates } = overRedis({ deadlineMs, port: proxy.port });
    const key = newKey();
    await admitted(rates, [requests(key, 40)]);
    proxy.delay(5_000);
    const took = await timed(rates, [requests(key, 40)], 60);
    expect(took.filter((ms) => ms > waitsMs).length).toBeLessThanOrEqual(5);
    expect(Math.max(...took)).toBeLessThan(slowed(200));
  });

  /** A moment without an answer is not taken for a loss yet. */
  async function untilLost({ rates, guard }: LimitRig): Promise<void> {
    await eventually("it is asked and does not answer", async () => {
      await admitted(rates, [requests(newKey(), 40)]);
      return guard.lostSinceMs !== null && performance.now() - guard.lostSinceMs > 1_000;
    });
  }

  test("split: every process keeps to its part: what it had, and an even part of what was left", async () => {
    const processes = Array.from({ length: 4 }, () => overRedis({ deadlineMs, port: proxy.port, processes: 4 }));
    const key = newKey();
    const claims = [requests(key, 400)];
    for (let call = 0; call < 50; call += 1) await admitted(processes[0]!.rates, claims);
    proxy.refuse();
    proxy.cut();
    await Promise.all(processes.map(untilLost));
    const through = await Promise.all(
      processes.map(async ({ rates }) => {
        let count = 0;
        for (let call = 0; call < 300; call += 1) if (await admitted(rates, claims)) count += 1;
        return count;
      }),
    );
    // A fourth of the 350 that nobody had used.
    expect(through[0]).toBeGreaterThanOrEqual(80);
    expect(through[0]).toBeLessThanOrEqual(100);
    for (const count of through.slice(1)) expect(count).toBeLessThanOrEqual(120);
    for (const count of through.slice(1)) expect(count).toBeGreaterThanOrEqual(100);
    expect(through.reduce((sum, count) => sum + count, 50)).toBeLessThanOrEqual(400 * 1.2);
  });

  test("what was admitted without it is counted when it is back", async () => {
    const [cut, well] = [overRedis({ deadlineMs, port: proxy.port, processes: 2, skipMs: 2_000 }), overRedis({ processes: 2 })];
    const key = newKey();
    proxy.refuse();
    proxy.cut();
    await untilLost(cut);
    let alone = 0;
    for (let call = 0; call < 60; call += 1) if (await admitted(cut.rates, [requests(key, 48)])) alone += 1;
    const held = granted(await reserve(cut.rates, [], slotClaim(key, 4, `${key}-alone`)));
    expect(alone).toBe(24);
    proxy.restore();
    await eventually("the other sees it", async () => {
      const taken = await well.counts.take([{ id: `${key} rpm`, limit: 48, need: 0, wish: 0, sharers: 1 }], []);
      return taken.ok && taken.granted[0]!.remaining === 24;
    });
    held.settle([]);
  });

  test("what was admitted without it counts as soon as it is back, before it was reported", async () => {
    const [cut, well] = [overRedis({ deadlineMs, port: proxy.port, processes: 2, skipMs: 1_500 }), overRedis({ processes: 2 })];
    const key = newKey();
    const claims = [requests(key, 300)];
    let through = 0;
    for (let call = 0; call < 150; call += 1) if (await admitted(well.rates, claims)) through += 1;
    proxy.refuse();
    proxy.cut();
    await untilLost(cut);
    const asking = async (): Promise<boolean> => {
      for (let call = 0; call < 20; call += 1) if (await admitted(cut.rates, claims)) through += 1;
      return cut.guard.health() === "ok";
    };
    await asking();
    proxy.restore();
    await eventually("it is back", asking);
    for (let round = 0; round < 20; round += 1) {
      await asking();
      await Bun.sleep(10);
    }
    expect(through).toBeGreaterThanOrEqual(290);
    expect(through).toBeLessThanOrEqual(300);
  });

  test("slow for a moment: what it took for calls that went on without it is given back", async () => {
    const { rates, guard, counts } = overRedis({ deadlineMs, port: proxy.port });
    const key = newKey();
    const limit = 10_000;
    for (let call = 0; call < 40; call += 1) expect(await admitted(rates, [requests(key, limit)])).toBe(true);
    // A lease that was taken before may be spent meanwhile.
    await Bun.sleep(600);
    proxy.freeze();
    for (let call = 0; call < 3; call += 1) expect(await admitted(rates, [requests(key, limit)])).toBe(true);
    proxy.thaw();
    await eventually("it is well", async () => (await admitted(rates, [requests(newKey(), 40)])) && guard.health() === "ok");
    await eventually("just what was used is counted", async () => {
      const taken = await counts.take([{ id: `${key} rpm`, limit, need: 0, wish: 0, sharers: 1 }], []);
      return taken.ok && taken.granted[0]!.remaining === limit - 43;
    });
  });

  test.each([
    ["open", true],
    ["closed", false],
  ] as const)("%s: as configured", async (onStoreLoss, expected) => {
    const { rates, guard } = overRedis({ deadlineMs, port: proxy.port, onStoreLoss });
    const key = newKey();
    proxy.refuse();
    proxy.cut();
    const results: boolean[] = [];
    for (let call = 0; call < 60; call += 1) results.push(await admitted(rates, [requests(key, 40)]));
    expect(results).toEqual(results.map(() => expected));
    expect(guard.health()).toBe("degraded");
    const look = rates.status(requests(key, 40));
    expect(look.waitMs === 0).toBe(expected);
  });

  test("that restarts empty does no harm", async () => {
    const { rates, guard } = overRedis({ deadlineMs, skipMs: 200 });
    const key = newKey();
    const held = granted(await reserve(rates, [requests(key, 40)], slotClaim(key, 4, `${key}-a`)));
    await redis.kill9();
    expect(await admitted(rates, [requests(key, 40)])).toBe(true);
    await redis.start();
    await eventually("it is asked again", async () => (await admitted(rates, [requests(newKey(), 40)])) && guard.health() === "ok");
    expect(await admitted(rates, [requests(key, 40)])).toBe(true);
    held.settle([1]);
  });

  test("that restarts empty does not double a minute: all processes report what they admitted, and keep to their parts until then", async () => {
    const processes = Array.from({ length: 2 }, () => overRedis({ deadlineMs, skipMs: 200, processes: 2 }));
    const key = newKey();
    const claims = [requests(key, 200)];
    const offer = async (calls: number): Promise<number> => {
      let through = 0;
      for (let call = 0; call < calls; call += 1) {
        for (const { rates } of processes) if (await admitted(rates, claims)) through += 1;
      }
      return through;
    };
    let through = await offer(80);
    expect(through).toBe(160);
    // By then all leases have gone back.
    await Bun.sleep(800);
    await redis.kill9();
    await redis.start();
    // The first of them asks at once, and does not find what the other had used.
    for (let call = 0; call < 150; call += 1) if (await admitted(processes[0]!.rates, claims)) through += 1;
    await eventually("both have told", async () => {
      through += await offer(1);
      const taken = await processes[0]!.counts.take([{ id: `${key} rpm`, limit: 1_000, need: 0, wish: 0, sharers: 1 }], []);
      return taken.ok && taken.granted[0]!.remaining <= 1_000 - 160;
    });
    through += await offer(150);
    // While it was away, each may have let one in that nobody else knew of.
    expect(through).toBeLessThanOrEqual(202);
    expect(through).toBeGreaterThanOrEqual(180);
  });

  test("whose data makes no sense, or that takes no writes, is treated as lost", async () => {
    const { rates, guard } = overRedis({ deadlineMs, skipMs: 100 });
    const link = new RedisLink({ url: redis.url });
    links.push(link);
    const key = newKey();
    await link.send("SET", [`sluice:{${key}}:rate:${key} rpm`, "nonsense"]);
    for (let call = 0; call < 10; call += 1) expect(await admitted(rates, [requests(key, 40)])).toBe(true);
    await link.send("DEL", [`sluice:{${key}}:rate:${key} rpm`]);
    await link.send("HSET", [`sluice:{${key}}:rate:${key} rpm`, "what", "ever", "9e99", "x"]);
    await eventually("it is asked again", () => guard.health() === "ok", 3_000);
    expect(await admitted(rates, [requests(key, 40)])).toBe(true);
    await link.send("CONFIG", ["SET", "maxmemory", "1"]);
    for (let call = 0; call < 10; call += 1) expect(await admitted(rates, [requests(key, 40)])).toBe(true);
    expect(guard.health()).toBe("degraded");
    await link.send("CONFIG", ["SET", "maxmemory", "0"]);
    await eventually("it is asked again", () => guard.health() === "ok", 3_000);
  });
});
