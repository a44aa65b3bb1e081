// Needs: quiet. It mostly waits for receipts to be drained.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { UsageRow } from "../../src/usage/usage-row.ts";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat, type ChatReply } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { newGroup } from "../support/groups.ts";
import { dollars, openKeys, type Keys, type MadeKey } from "../support/keys.ts";

setDefaultTimeout(60_000);

const outputTokens = 5;
/** A tenth of a cent for each token of an answer. */
const callNanos = outputTokens * dollars(0.001);
const plainCalls = 300;
/** So many that chance would not keep all of them. */
const oddCalls = 12;

let first: Chaos;
let second: Chaos;
let gateway: Gateway;
let keys: Keys;

beforeAll(async () => {
  [first, second] = [await startChaos(), await startChaos()];
  gateway = await startGateway({
    config: {
      receipts: { sample: 0.1 },
      prices: [{ model: "*", input: 0, output: 1_000 }],
      channels: [first, second].map(({ url }, at) => ({ name: `tier-${at + 1}`, base_url: url, models: "*", tier: at + 1 })),
    },
  });
  keys = await openKeys(gateway);
});

afterAll(async () => {
  await keys?.[Symbol.asyncDispose]();
  await gateway?.[Symbol.asyncDispose]();
  for (const upstream of [first, second]) await upstream?.[Symbol.asyncDispose]();
});

/** Calls of four clients; each asks for as many tokens as it gets, so that what is reserved is what it costs. */
async function chats({ token }: MadeKey, wanted: number, modelOf: (call: number) => string = () => "plain"): Promise<readonly ChatReply[]> {
  const replies: ChatReply[] = [];
  let begun = 0;
  const client = async (): Promise<void> => {
    while (begun < wanted) {
      const body = { model: modelOf((begun += 1)), max_tokens: outputTokens, x_tokens: outputTokens };
      replies.push(await chat(gateway, body, { key: token }));
    }
  };
  await Promise.all(Array.from({ length: 4 }, client));
  return replies;
}

function answers(replies: readonly ChatReply[]): readonly string[] {
  return replies.map(({ status, error }) => (error === null ? String(status) : `${status} ${error.code}`));
}

/** What the sums say of a key, as soon as they have so many calls. */
async function usageOf({ id }: MadeKey, calls: number): Promise<UsageRow | undefined> {
  const query = { by: [], sinceMs: null, untilMs: null, keyId: id, model: null, channel: null };
  const usage = async (): Promise<UsageRow | undefined> => (await keys.store.storage.receipts.usage(query))[0];
  await eventually("every call is counted", async () => ((await usage())?.calls ?? 0) >= calls);
  return usage();
}

async function stored(replies: readonly ChatReply[]) {
  const receipts = await Promise.all(replies.map(({ requestId }) => keys.store.storage.receipts.find(requestId ?? "")));
  return receipts.filter((receipt) => receipt !== null);
}

describe("with receipts.sample: 0.1", () => {
  test("about a tenth of plain successes is stored, every one of them is counted, and its budget is spent to the last call", async () => {
    await keys.store.storage.groups.create("grp_team", newGroup("team"), [], { kind: "cli", name: "tester" });
    const key = await keys.make({ group: "grp_team", limits: { budget_usd: (plainCalls * callNanos) / 1e9, budget_period: "total" } });
    const replies = await chats(key, plainCalls);
    expect(answers(replies)).toEqual(replies.map(() => "200"));
    expect(answers(await chats(key, 1))).toEqual(["429 insufficient_quota"]);
    expect(await usageOf(key, plainCalls)).toMatchObject({
      calls: plainCalls,
      failedCalls: 0,
      completionTokens: plainCalls * outputTokens,
      nanos: plainCalls * callNanos,
      unpricedCalls: 0,
      uncertainCalls: 0,
    });
    const payments = await keys.store.storage.receipts.payments("grp_team", null);
    expect(payments.reduce((sum, { nanos }) => sum + nanos, 0)).toBe(plainCalls * callNanos);
    // Thirty are expected; about thirteen standard deviations more, and none at all once in 10^13 runs.
    const { length } = await stored(replies);
    expect(length).toBeGreaterThan(0);
    expect(length).toBeLessThan(100);
  });

  test("every call that failed, and every one that a second channel had to answer, has its receipt", async () => {
    const [key, made] = [await keys.make(), (kind: string) => (call: number) => `${kind}-${call}`];
    first.behaviour = "fault:status@500";
    const saved = await chats(key, oddCalls, made("saved"));
    // Nobody else is asked after this one.
    first.behaviour = "fault:status@400";
    const failed = await chats(key, oddCalls, made("failed"));
    expect([saved, failed].map((replies) => new Set(replies.map(({ status }) => status)))).toEqual([new Set([200]), new Set([400])]);
    expect(await usageOf(key, 2 * oddCalls)).toMatchObject({ calls: 2 * oddCalls, failedCalls: oddCalls, nanos: oddCalls * callNanos });
    const states = async (replies: readonly ChatReply[]) =>
      (await stored(replies)).map(({ state, attempts }) => [state, attempts.length > 1]);
    expect(await states(saved)).toEqual(saved.map(() => ["complete", true]));
    expect(await states(failed)).toEqual(failed.map(() => ["failed", false]));
  });
});
