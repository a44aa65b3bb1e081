// Needs: quiet, servers. It mostly waits for hints to reach others and to end.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { DistributedHints } from "../../src/limits/distributed-hints.ts";
import { CoolDownHints } from "../../src/state/cool-down-hints.ts";
import { RedisHints } from "../../src/state/redis/hints.ts";
import { RedisLink } from "../../src/state/redis/link.ts";
import { StoreGuard } from "../../src/state/store-guard.ts";
import type { Database } from "../../src/store/database.ts";
import { SqlHints } from "../../src/store/tables/hint-table.ts";
import { engines } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { after } from "../support/joint-rig.ts";
import { present, remark } from "../support/servers/obtain.ts";
import { startRedis } from "../support/servers/redis.ts";

const found = await startRedis();
const noRedis = remark(found);
const redis = present(found);
const links: RedisLink[] = [];
const running: CoolDownHints[] = [];

afterEach(() => {
  for (const hints of running.splice(0)) hints.stop();
});

afterAll(async () => {
  for (const link of links) link.close();
  if (noRedis === "") await redis.stop();
});

const databases = new Map<string, Promise<Database>>();

const stores: readonly (readonly [name: string, skipped: boolean, open: () => Promise<DistributedHints>])[] = [
  ["Redis", noRedis !== "", async () => new RedisHints(newLink())],
  ...engines.map((engine) => {
    const open = async (): Promise<DistributedHints> => {
      if (!databases.has(engine.name)) databases.set(engine.name, engine.open());
      return new SqlHints(await databases.get(engine.name)!, { wallMs: () => Date.now() });
    };
    return [engine.name, engine.skipped !== null, open] as const;
  }),
];

for (const [name, skipped, open] of stores) {
  describe.skipIf(skipped)(`hints over ${name}`, () => {
    // The server may have to start first.
    beforeAll(async () => void (await open()), 60_000);

    test("reach the other processes, once each time they are published, and not the publisher", async () => {
      const [here, there] = [await heard(open), await heard(open)];
      here.hints.publish("channel/a", "rate_limited", 20_000);
      await eventually("it is heard", () => there.heard.length === 1);
      expect(there.heard[0]).toMatchObject({ scope: "channel/a", cause: "rate_limited" });
      expect(there.heard[0]!.forMs).toBeGreaterThan(15_000);
      expect(there.heard[0]!.forMs).toBeLessThanOrEqual(20_000);
      here.hints.publish("channel/a", "rate_limited", 40_000);
      await eventually("it is heard that it takes longer", () => there.heard.length === 2);
      // Three more rounds bring nothing new.
      there.hints.publish("channel/b", "unreachable", 5_000);
      await eventually("the answer is heard", () => here.heard.length === 1);
      await Bun.sleep(100);
      expect(here.heard.map(({ scope }) => scope)).toEqual(["channel/b"]);
      expect(there.heard.map(({ scope }) => scope)).toEqual(["channel/a", "channel/a"]);
    });

    test("end by themselves, and a shorter one does not cut a longer one short", async () => {
      const hints = await open();
      const scope = `passing/${name}`;
      await hints.publish({ scope, cause: "gone soon", forMs: 1_500 });
      await hints.publish({ scope, cause: "gone soon", forMs: 500 });
      const mine = (await hints.read()).filter((hint) => hint.scope === scope);
      expect(mine).toHaveLength(1);
      expect(mine[0]!.forMs).toBeGreaterThan(600);
      await eventually("it is gone", async () => !(await hints.read()).some((hint) => hint.scope === scope), 5_000);
    });

    test("that are absurd are bounded", async () => {
      const [here, there] = [await heard(open), await heard(open)];
      here.hints.publish("absurd/long", "x".repeat(10_000), 1e15);
      here.hints.publish("absurd/".padEnd(5_000, "y"), "never", 1_000);
      here.hints.publish("absurd/nan", "never", Number.NaN);
      await eventually("it is heard", () => there.heard.some(({ scope }) => scope === "absurd/long"));
      const absurd = there.heard.filter(({ scope }) => scope.startsWith("absurd/"));
      expect(absurd).toHaveLength(1);
      expect(absurd[0]!.forMs).toBeLessThanOrEqual(3_600_000);
      expect(absurd[0]!.cause.length).toBeLessThanOrEqual(500);
    });
  });
}

describe.skipIf(noRedis !== "" || !redis.controlled)(`hints over a lost store${noRedis}`, () => {
  test("are not published until it is back, and nothing fails", async () => {
    const [here, there] = [await heard(stores[0]![2]), await heard(stores[0]![2])];
    await redis.kill9();
    for (let count = 0; count < 100; count += 1) here.hints.publish(`lost/${count}`, "unreachable", 10_000);
    await Bun.sleep(100);
    await redis.start();
    await eventually("they flow again", () => {
      here.hints.publish("found", "unreachable", 10_000);
      return there.heard.some(({ scope }) => scope === "found");
    });
  });

  test("that another program filled with nonsense are skipped", async () => {
    const link = newLink();
    await link.send("ZADD", ["sluice:hints", "99999999999999", "not json", "99999999999999", '{"a":1}', "99999999999999", "[1,2]"]);
    const there = await heard(stores[0]![2]);
    there.hints.publish("mine", "unreachable", 1_000);
    const other = await heard(stores[0]![2]);
    await eventually("what makes sense is heard", () => other.heard.some(({ scope }) => scope === "mine"));
    expect(other.heard.filter(({ scope }) => typeof scope !== "string")).toEqual([]);
    await link.send("DEL", ["sluice:hints"]);
  });
});

interface Heard {
  readonly scope: string;
  readonly cause: string;
  readonly forMs: number;
}

async function heard(open: () => Promise<DistributedHints>): Promise<{ readonly hints: CoolDownHints; readonly heard: readonly Heard[] }> {
  const list: Heard[] = [];
  const store = await open();
  const guard = new StoreGuard({ nowMs: () => performance.now(), after, probe: () => store.read(), skipMs: 100, deadlineMs: 1_000 });
  const onHint = (scope: string, cause: string, forMs: number): void => void list.push({ scope, cause, forMs });
  const hints = new CoolDownHints({ hints: store, guard, after, onHint, everyMs: 25 });
  running.push(hints);
  return { hints, heard: list };
}

function newLink(): RedisLink {
  const link = new RedisLink({ url: redis.url });
  links.push(link);
  return link;
}
