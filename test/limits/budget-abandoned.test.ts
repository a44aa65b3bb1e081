// Needs: quiet. It mostly waits for what was reserved to be given back.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { LimitFields } from "../../src/limits/limit-fields.ts";
import { dollars, openKeys, type Keys } from "../support/keys.ts";
import { setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

let rig: Rig<"a">;
let keys: Keys;

beforeAll(async () => {
  rig = await setUp({ a: { models: ["priced"] } }, { prices: [{ model: "priced", input: 0, output: 1_000 }] });
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

/** For one such call. */
const budgets: readonly (readonly [string, LimitFields])[] = [
  ["for all calls", { budget_usd: 0.1 }],
  ["for a channel", { budgets: [{ name: "a", channels: ["a"], budget_usd: dollars(0.1) }] }],
];

test.each(budgets)("whoever leaves before a whole answer is complete pays for it from a budget %s, again and again", async (_, limits) => {
  const key = await keys.make({ limits });
  const body = JSON.stringify({
    model: "priced",
    max_tokens: 100,
    x_tokens: 100,
    x_first_ms: 5_000,
    messages: [{ role: "user", content: "hi" }],
  });
  const earlier = rig.upstream.a.ledger.chats.length;
  const asked = (): number => rig.upstream.a.ledger.chats.length - earlier;
  const statuses: number[] = [];
  for (let calls = 0; calls < 5; calls += 1) {
    const before = asked();
    const leaving = new AbortController();
    const answer = fetch(`${rig.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.token}`, "content-type": "application/json" },
      body,
      signal: leaving.signal,
    }).then(
      ({ status }) => void statuses.push(status),
      () => {},
    );
    // The upstream has had half a second for it.
    await Bun.sleep(500);
    leaving.abort();
    await answer;
    if (asked() > before) await keys.receipts(key.id, asked());
  }
  expect(asked()).toBeLessThanOrEqual(2);
});
