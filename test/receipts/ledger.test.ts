// Needs: quiet. It mostly waits for upstreams that stall, and for receipts to be drained.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { AttemptReceipt, Receipt } from "../../src/usage/receipt.ts";
import type { Attempt } from "../support/chaos/ledger.ts";
import { openChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { numRuns } from "../support/properties.ts";
import type { RawOptions } from "../support/raw-request.ts";
import { faultOfAttempt, faultsOfSums, matched, witnessed } from "../support/receipt-truth.ts";
import { price, Receipts } from "../support/receipts.ts";
import { setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

const callsMax = numRuns(600);
const clientsMax = 24;
const casesMax = 120;
const seed = Date.now() % 1_000_000_000;
const keys = ["one", "two", "three"].map((name) => ({ name, key: `sk-${name}-0123456789abcdef` }));
const channels = ["a", "b", "c"] as const;

/** What an upstream may do with a chat; what it does without a word in between is what costs the most time. */
const manners = [
  ...Array.from({ length: 8 }, () => "ok"),
  ...["status@500", "status@503", "status@429", "status@400", "error-in-200@502", "error-in-200@400"],
  ...["rst-before-headers", "close-before-headers", "rst-mid-headers", "rst-mid-body", "fin-mid-body", "rst-before-content"],
  ...["rst-after@1", "rst-after@3", "fin-chunked-after@2", "end-after@1", "end-after@3", "sse-error-after@2", "hang-after@2", "silent"],
  ...["html-200", "empty-200", "invalid-json", "no-choices", "done-only", "role-then-end", "finish-error"],
  ...[
    "usage-missing",
    "usage-twice",
    "usage-on-finish-chunk",
    "absurd-usage@-1",
    "absurd-usage@1e12",
    "absurd-usage@string",
    "absurd-usage@NaN",
  ],
  ...["no-done", "done-without-finish", "hang-after-finish", "gzip", "crlf", "one-packet", "byte-by-byte", "pace@3", "malformed-event"],
];

interface Case {
  readonly behaviours: readonly string[];
}

interface Ask {
  readonly id: string;
  readonly model: string;
  readonly key: (typeof keys)[number];
  readonly stream: boolean;
  readonly abort: RawOptions["abort"] | null;
}

const manner = fc.constantFrom(...manners);
const cases: readonly Case[] = fc
  .sample(fc.tuple(manner, manner, manner), { numRuns: casesMax, seed })
  .map((three, at) => ({ behaviours: three.map((one) => behaviourOf(one, at)) }));

/** Each with a length of its own, so that no two cases share a deployment and its history. */
function behaviourOf(one: string, at: number): string {
  return one === "ok" ? `ok-${at}` : `fault:tokens@${3 + at}+${one}`;
}

const asks: readonly Ask[] = fc
  .sample(
    fc.record({
      at: fc.nat(casesMax - 1),
      key: fc.constantFrom(...keys),
      stream: fc.boolean(),
      abort: fc.oneof(
        { weight: 8, arbitrary: fc.constant(null) },
        { weight: 2, arbitrary: fc.nat(2_000).map((afterBodyBytes) => ({ afterBodyBytes })) },
        { weight: 1, arbitrary: fc.nat(60).map((afterMs) => ({ afterMs })) },
        { weight: 1, arbitrary: fc.constantFrom("after-request" as const, "after-head" as const) },
      ),
    }),
    { numRuns: callsMax, seed },
  )
  .map(({ at, ...ask }, number) => ({ ...ask, id: `call-${number}`, model: `case-${at}` }));

let rig: Rig<(typeof channels)[number]>;
let receipts: Receipts;

beforeAll(async () => {
  const timeouts = { first_byte: "800ms", first_content: "800ms", idle: "800ms" };
  const settings = (at: number): Record<string, unknown> => ({
    tier: at + 1,
    timeouts,
    models: Object.fromEntries(cases.map(({ behaviours }, number) => [`case-${number}`, behaviours[at]!])),
  });
  rig = await setUp(
    { a: settings(0), b: settings(1), c: settings(2) },
    { keys: [...keys, rehearsing], prices: [{ model: "*", ...price }] },
  );
  receipts = await Receipts.open(rig.gateway.directory);
});

/** The rig makes a call of its own, to warm up. */
const rehearsing = { name: "tester", key: "sk-client-canary-0123456789abcdef" };

afterAll(async () => {
  await receipts[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

test(`over ${callsMax} random calls, receipts say of each attempt what its upstream knows (seed ${seed})`, async () => {
  const ended = await makeAll();
  await eventually("every call is logged", () => rig.gateway.accessLines().length > callsMax, 20_000);
  for (const { ledger } of rig.upstreams) await ledger.settled();
  const written = await eventualReceipts();

  const attempts = new Map(
    rig.upstreams.map(({ name, ledger }) => [name, Map.groupBy(witnessed(ledger, ledger.chats), ({ truth }) => truth.call)]),
  );
  const wrong: string[] = [];
  const count = { receipts: 0, attempts: 0, reported: 0, guessed: 0, cut: 0, left: 0 };
  for (const ask of asks) {
    const seenAt = (channel: string) => attempts.get(channel)?.get(ask.id) ?? [];
    const own = channels.flatMap(seenAt);
    const receipt = written.get(ask.id);
    if (receipt === undefined) {
      // Whoever left before its request was read was not let in, nor anybody on a machine without a breath; then nobody is asked.
      const isShed = ended.get(ask.id)?.code === "overloaded";
      if ((ask.abort === null && !isShed) || own.length > 0) {
        wrong.push(`${ask.id}: no receipt, and ${own.length} attempts; the client saw ${JSON.stringify(ended.get(ask.id))}`);
      }
      continue;
    }
    count.receipts += 1;
    for (const fault of faultsOf(receipt, ask, ended.get(ask.id) ?? null)) wrong.push(`${ask.id} (${ask.model}): ${fault}`);
    for (const channel of channels) {
      const said = receipt.attempts.filter((one) => one.channel === channel);
      const pairs = matched(said, seenAt(channel));
      if (typeof pairs === "string") {
        wrong.push(`${ask.id} (${ask.model}) at ${channel}: ${pairs}`);
        continue;
      }
      for (const [one, truth] of pairs) {
        count.attempts += 1;
        if (one.outcome === "abandoned") count.left += 1;
        else if (one.outcome === "failed" && one.completionTokens !== null) count.cut += 1;
        else if (one.outcome === "answered") count[one.estimated ? "guessed" : "reported"] += 1;
        const fault = isTooCertain(one, truth) ? "no doubt about what it cost" : faultOfAttempt(one, truth, true);
        if (fault !== null) wrong.push(`${ask.id} (${ask.model}) at ${channel}, ${truth.behaviour}, ${truth.streamed}: ${fault}`);
      }
    }
  }
  expect(wrong.slice(0, 20)).toEqual([]);
  // It would prove little if one of these never happened.
  for (const [what, times] of Object.entries(count)) expect([what, times > callsMax / 100]).toEqual([what, true]);
  expect(count.receipts).toBeGreaterThan(callsMax / 2);

  const rows = [...written.values()];
  await receipts.expectSumsToMatch();
  const usage = await receipts.storage.receipts.usage({
    by: ["key"],
    sinceMs: null,
    untilMs: null,
    keyId: null,
    model: null,
    channel: null,
  });
  for (const { name } of keys) {
    const own = rows.filter(({ keyId }) => keyId === `file:${name}`);
    expect(usage.find(({ group }) => group.key === `file:${name}`)).toMatchObject({
      calls: own.length,
      completionTokens: own.reduce((sum, { delivered }) => sum + (delivered.completionTokens ?? 0), 0),
      nanos: own.reduce((sum, { billedNanos }) => sum + billedNanos!, 0),
      unpricedCalls: 0,
    });
  }
});

/** What each client got to see, by call. */
async function makeAll(): Promise<ReadonlyMap<string, Seen>> {
  const seen = new Map<string, Seen>();
  const left = asks.values();
  const client = async (): Promise<void> => {
    for (const { id, model, key, stream, abort } of left) {
      const call = await openChat(
        rig.gateway,
        { model, x_call: id },
        { key: key.key, stream, headers: { "x-request-id": id }, ...(abort == null ? {} : { abort }) },
      );
      const reply = await call.reply.catch(() => null);
      if (reply === null || reply.response.aborted) continue;
      seen.set(id, {
        whole: reply.error === null && reply.status === 200 && (reply.done || !stream),
        status: reply.status,
        code: reply.error?.code ?? null,
      });
    }
  };
  await Promise.all(Array.from({ length: clientsMax }, client));
  return seen;
}

interface Seen {
  readonly whole: boolean;
  readonly status: number;
  readonly code: string | null;
}

/** Those of the calls of this test, when no more come: a call that was logged as let in has one. */
/** All there will be: under load they are gathered for up to a second before they go into the store. */
async function eventualReceipts(): Promise<ReadonlyMap<string, Receipt>> {
  let before = -1;
  let all: readonly Receipt[] = [];
  for (;;) {
    all = (await receipts.all()).filter(({ requestId }) => requestId.startsWith("call-"));
    if (all.length === before) break;
    before = all.length;
    await Bun.sleep(3_000);
  }
  const byId = new Map(all.map((receipt) => [receipt.requestId, receipt]));
  expect(byId.size).toBe(all.length);
  return byId;
}

/** What is wrong with a receipt as a whole. */
function faultsOf(receipt: Receipt, ask: Ask, seen: Seen | null): readonly string[] {
  const { attempts } = receipt;
  const wrong = [...faultsOfSums(receipt)];
  if (receipt.keyId !== `file:${ask.key.name}` || receipt.stream !== ask.stream) wrong.push("of somebody else");
  if (seen !== null && seen.whole !== (receipt.state === "complete"))
    wrong.push(`${receipt.state}, and the client saw ${JSON.stringify(seen)}`);
  if (seen !== null && seen.status !== receipt.status) wrong.push(`status ${receipt.status}, and the client saw ${seen.status}`);
  if (receipt.state === "complete" && attempts.filter(({ outcome }) => outcome === "answered").length !== 1) wrong.push("not one answer");
  return wrong;
}

/** Of these manners, only a refusal leaves no doubt about what it cost. */
function isTooCertain({ outcome, error, costUncertain }: AttemptReceipt, { behaviour }: Attempt): boolean {
  if (outcome === "answered" || costUncertain) return false;
  return outcome !== "failed" || error === "timed_out" || !/status@|error-in-200/.test(behaviour);
}
