// Needs: quiet. It mostly waits for what was spent to be known.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Limits } from "../../src/limits/limits.ts";
import type { Group } from "../../src/keys/group.ts";
import type { ChatReply } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { newGroup } from "../support/groups.ts";
import { dollars, openKeys, spentNanosOf, type Keys } from "../support/keys.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

/** A tenth of a cent for each token of an answer: a call that asks for ten may cost a cent. */
const prices = [{ model: "priced*", input: 0, output: 1_000 }];
const callNanos = 10 * dollars(0.001);
const fileKey = "sk-in-a-group-0123456789abcdef";
const by = { kind: "cli", name: "tester" } as const;
const fiveSeconds = 5_000;

let rig: Rig<"a">;
let keys: Keys;
let serial = 0;

beforeAll(async () => {
  const groups = [
    { name: "corp", kind: "organisation", limits: { rpm: 1_000 } },
    { name: "lab", kind: "team", parent: "corp", limits: { rpm: 2 } },
    { name: "holding", defaults: { keys: { concurrency: 1 }, groups: { concurrency: 2 } } },
    { name: "studio", kind: "team", parent: "holding" },
    { name: "atelier", kind: "team", parent: "holding" },
  ];
  const inFile = [
    { name: "tester", key: clientKey },
    { name: "grouped", key: fileKey, group: "lab" },
  ];
  rig = await setUp({ a: { models: ["priced", "plain"] } }, { prices, groups, keys: inFile });
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

async function group(kind: Group["kind"], parent: string | null, limits: Partial<Limits> = {}): Promise<string> {
  const id = `grp_${kind}${(serial += 1)}`;
  await keys.store.storage.groups.create(id, newGroup(id.slice(4), { kind, parent, limits }), [], by);
  return id;
}

function chat(token: string, body: Record<string, unknown> = {}): Promise<ChatReply> {
  return rig.chat({ model: "priced", max_tokens: 10, x_tokens: 10, ...body }, { key: token });
}

describe("a group", () => {
  test("of the file limits its keys together, and the message names the team", async () => {
    const replies = [await chat(fileKey), await chat(fileKey), await chat(fileKey)];
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(replies[2]?.error?.message).toStartWith("The team lab is limited to 2 requests per minute,");
    expect(await keys.receipt(replies[0]!.requestId)).toMatchObject({ owners: ["file-group:lab", "file-group:corp"] });
  });

  test("has defaults, which each of its keys and each group below it is admitted by", async () => {
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => keys.make({ group: "file-group:studio" })));
    const other = await keys.make({ group: "file-group:atelier", limits: { concurrency: 2 } });
    const open = ({ token }: { readonly token: string }) =>
      rig.open({ model: "plain", x_tokens: 2_000, x_pace_ms: 20 }, { key: token, stream: true, timeoutMs: 30_000 });
    const running = [await open(one!)];
    await running[0]!.untilBody(100);
    const second = await chat(one!.token, { model: "plain", stream: true });
    expect(second).toMatchObject({ status: 429, error: { code: "concurrency_limit" } });
    expect(second.error?.message).toStartWith("This key is limited to 1 ");
    running.push(await open(two!));
    await running[1]!.untilBody(100);
    const third = await chat(three!.token, { model: "plain", stream: true });
    expect(third).toMatchObject({ status: 429, error: { code: "concurrency_limit" } });
    expect(third.error?.message).toStartWith("The team studio is limited to 2 ");
    // A limit of its own takes the place of the default, and another group has its own places.
    running.push(await open(other), await open(other));
    await Promise.all(running.map((call) => call.untilBody(100)));
    expect(running.map(({ response }) => response.status)).toEqual([200, 200, 200, 200]);
    for (const call of running) call.abort();
    await Promise.all(running.map(({ reply }) => reply.catch(() => null)));
    await eventually("a place is free again", async () => (await chat(one!.token, { model: "plain" })).status === 200);
  });

  test("with a budget for ten calls is not overspent by two hundred at once, over its keys and the groups below it", async () => {
    const organisation = await group("organisation", null, { budget: { nanos: 10 * callNanos, period: "month" } });
    const team = await group("team", organisation, { budget: { nanos: 8 * callNanos, period: "total" } });
    const [web, other] = [await group("project", team), await group("team", organisation)];
    const made = await Promise.all([web, web, team, other, other].map((one) => keys.make({ group: one })));
    const replies = await Promise.all(Array.from({ length: 200 }, (_, at) => chat(made[at % made.length]!.token)));
    const served = replies.flatMap(({ status }, at) => (status === 200 ? [at % made.length] : []));
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(190);
    expect(served).toHaveLength(10);
    expect(served.filter((at) => at < 3).length).toBeLessThanOrEqual(8);
    const spent = (id: string): Promise<number> => spentNanosOf(keys.store, id);
    await eventually("everything is counted", async () => (await spent(organisation)) === 10 * callNanos);
    expect(await spent(team)).toBe(served.filter((at) => at < 3).length * callNanos);
    await eventually("the refusal says that it is spent, and whose", async () => {
      const refused = await chat(made[3]!.token);
      expect(refused).toMatchObject({ status: 429, error: { code: "insufficient_quota" } });
      return refused.error?.message.startsWith(`The budget of the organisation ${organisation.slice(4)}, $0.1 a month, is spent.`) === true;
    });
  });

  test("that is frozen ends running streams below it, also of what is moved there, within five seconds, and refuses its keys until it is unfrozen", async () => {
    const organisation = await group("organisation", null);
    const team = await group("team", organisation);
    const apart = await group("team", null);
    const [below, beside, moved] = [await keys.make({ group: team }), await keys.make(), await keys.make({ group: apart })];
    const open = (token: string) =>
      rig.open({ model: "plain", x_tokens: 2_000, x_pace_ms: 20 }, { key: token, stream: true, timeoutMs: 30_000 });
    const [call, bystander, mover] = [await open(below.token), await open(beside.token), await open(moved.token)];
    await Promise.all([call.untilBody(200), bystander.untilBody(200), mover.untilBody(200)]);
    const fromMs = performance.now();
    await keys.store.storage.groups.change(organisation, { frozen: true }, [], by);
    const reply = await call.reply;
    expect(performance.now() - fromMs).toBeLessThan(slowed(fiveSeconds));
    expect(reply).toMatchObject({ status: 200, done: false, error: { code: "group_frozen" } });
    const refused = await chat(below.token);
    expect(refused).toMatchObject({ status: 403, error: { code: "group_frozen" } });
    expect(refused.error?.message).toStartWith(`The organisation ${organisation.slice(4)} is frozen:`);
    expect((await chat(beside.token)).status).toBe(200);
    await keys.store.storage.groups.change(apart, { parent: organisation }, [], by);
    expect(await mover.reply).toMatchObject({ status: 200, done: false, error: { code: "group_frozen" } });
    await keys.store.storage.groups.change(organisation, { frozen: false }, [], by);
    await eventually("its keys can be used again", async () => (await chat(below.token)).status === 200, fiveSeconds);
    bystander.abort();
    await bystander.reply.catch(() => {});
  });

  test("counts a call where its key was, and a moved key where it is now", async () => {
    const [one, two] = [await group("team", null), await group("team", null)];
    const key = await keys.make({ group: one });
    const before = await chat(key.token);
    await keys.store.storage.keys.change(key.id, { group: two }, by);
    await eventually("the gateway has noticed", async () => {
      const { requestId } = await chat(key.token);
      return (await keys.receipt(requestId)).owners[0] === two;
    });
    expect((await keys.receipt(before.requestId)).owners).toEqual([one]);
  });

  test("that is deleted while a call of it runs is charged for the call, and so is the one above it", async () => {
    const organisation = await group("organisation", null, { budget: { nanos: 100 * callNanos, period: "month" } });
    const team = await group("team", organisation, { budget: { nanos: 50 * callNanos, period: "month" }, concurrency: 1 });
    const key = await keys.make({ group: team });
    const call = await rig.open(
      { model: "priced", max_tokens: 10, x_tokens: 10, x_pace_ms: 100 },
      { key: key.token, stream: true, timeoutMs: 30_000 },
    );
    await call.untilBody(100);
    await keys.store.storage.keys.change(key.id, { group: null }, by);
    await keys.store.storage.groups.remove(team, by);
    const { requestId, done } = await call.reply;
    expect([done, (await keys.receipt(requestId)).owners]).toEqual([true, [team, organisation]]);
    for (const id of [team, organisation]) {
      await eventually("the call is counted", async () => (await spentNanosOf(keys.store, id)) === callNanos);
    }
    expect((await chat(key.token)).status).toBe(200);
  });

  test("that was made a moment ago is known to a key that was made after it", async () => {
    const key = await keys.make({ group: await group("team", null) });
    expect((await chat(key.token)).status).toBe(200);
  });

  test("that does not exist any more makes its keys unusable, and not unlimited", async () => {
    const key = await keys.make({ group: "file-group:gone", limits: {} });
    expect(await chat(key.token)).toMatchObject({ status: 403, error: { code: "group_missing" } });
  });
});
