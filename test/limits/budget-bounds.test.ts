// Needs: quiet. Two hundred calls are counted that begin before the first of them ends, seconds later.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { dollars, openKeys, type Keys } from "../support/keys.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** A tenth of a cent for each token of an answer, and a thousandth of one. */
const prices = [
  { model: "priced*", input: 0, output: 1_000 },
  { model: "cheap", input: 0, output: 10 },
];
const cheapNanos = dollars(0.00001);

let rig: Rig<"a">;
let keys: Keys;

beforeAll(async () => {
  // The ceiling lowers what is asked for; where nothing is, it bounds nothing, and so it may not make a reservation smaller.
  rig = await setUp({ a: { models: ["priced", "priced-too", "cheap"], max_tokens_ceiling: 100 } }, { prices });
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

test("two hundred calls at once that do not say how long answers may be pass a budget by what a few of them exceed their reservation by", async () => {
  // Short answers to somebody else make the usual one short.
  for (let call = 0; call < 20; call += 1) await rig.chat({ model: "cheap", x_tokens: 1 }, { key: clientKey });
  const [reservation, answer] = [4_096 * cheapNanos, 6_000 * cheapNanos];
  const budget = dollars(0.1);
  const key = await keys.make({ limits: { budget_usd: 0.1 } });
  const before = rig.upstream.a.ledger.chats.length;
  const replies = await Promise.all(
    Array.from({ length: 200 }, () => rig.chat({ model: "cheap", x_tokens: 6_000, x_first_ms: 2_000 }, { key: key.token })),
  );
  const served = replies.filter(({ status }) => status === 200).length;
  expect(replies.filter(({ status }) => status === 429)).toHaveLength(200 - served);
  expect(served).toBe(Math.floor(budget / reservation));
  expect(rig.upstream.a.ledger.chats.length - before).toBe(served);
  const receipts = await keys.receipts(key.id, served);
  const spent = receipts.reduce((sum, { billedNanos }) => sum + (billedNanos ?? Number.NaN), 0);
  expect(spent).toBe(served * answer);
  expect(spent).toBeLessThanOrEqual(budget + served * (answer - reservation));
  // What was spent beyond counts at once.
  expect((await rig.chat({ model: "cheap", max_tokens: 1, x_tokens: 1 }, { key: key.token })).status).toBe(429);
});

test("of the rules for models only the first that fits counts, also for what was spent", async () => {
  const per_model = [
    { model: "priced-too", budget_usd: 1 },
    { model: "priced*", budget_usd: 0.02 },
  ];
  const key = await keys.make({ limits: { per_model } });
  const call = async (model: string): Promise<number> =>
    (await rig.chat({ model, max_tokens: 10, x_tokens: 10 }, { key: key.token })).status;
  for (let calls = 0; calls < 5; calls += 1) expect(await call("priced-too")).toBe(200);
  await keys.receipts(key.id, 5);
  expect([await call("priced"), await call("priced")]).toEqual([200, 200]);
  await keys.receipts(key.id, 7);
  expect(await call("priced")).toBe(429);
  expect(await call("priced-too")).toBe(200);
});
