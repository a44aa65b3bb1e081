import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Admission, AskedCall } from "../../../src/gateway/admission/limiter.ts";
import { Ledger } from "../../../src/gateway/admission/ledger.ts";
import type { CallFacts } from "../../../src/gateway/call.ts";
import { receiptOf, type RatesOf } from "../../../src/gateway/settlement/receipt.ts";
import { lostRace, type CallRecord, type AttemptRecord } from "../../../src/gateway/settlement/record.ts";
import { type Demand, unlimited } from "../../../src/limits/limits.ts";
import { readChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { failure, isFailure, type FailureKind } from "../../../src/operations/failure.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import type { Candidates } from "../../../src/routing/plan.ts";
import type { PriceRates } from "../../../src/usage/price.ts";
import { makePriceBook, priceOf } from "../../../src/usage/price-book.ts";
import type { Receipt } from "../../../src/usage/receipt.ts";
import { shippedPrices } from "../../../src/usage/shipped-prices.ts";
import { candidate } from "../../support/plan-world.ts";
import { inputNanos, nanosOf, outputNanos, tokens } from "../../support/receipts.ts";

const rates: PriceRates = { input: inputNanos * 1_000_000, output: outputNanos * 1_000_000 };
const estimatedPrompt = 10;

function tried(facts: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    channel: "one",
    provider: null,
    host: "upstream.test:443",
    model: "large",
    startedMs: 1_005,
    waitedMs: 0,
    outcome: "answered",
    failure: null,
    tookMs: 20,
    hedge: false,
    sent: true,
    expected: { ...nothingCounted, promptTokens: estimatedPrompt },
    usage: { ...nothingCounted, promptTokens: 8, completionTokens: 4 },
    outputTokens: 5,
    longestGapMs: null,
    ...facts,
  };
}

/** One that ended before it had output. */
function failed(kind: FailureKind, facts: Partial<AttemptRecord> = {}): AttemptRecord {
  return tried({ outcome: "failed", failure: failure(kind, "in a test"), usage: null, outputTokens: 0, ...facts });
}

function recorded(attempts: readonly AttemptRecord[], facts: Partial<CallRecord> = {}): CallRecord {
  return {
    id: "req",
    keyId: "key",
    operation: "chat",
    model: "large",
    stream: true,
    bytesIn: 100,
    startedMs: 1_000,
    waitedMs: 0,
    admission: null,
    status: 200,
    state: "complete",
    failure: null,
    attempts,
    endedMs: 1_050,
    firstContentMs: 30,
    usage: null,
    finish: "stop",
    bytesOut: 500,
    clampedTo: null,
    chunks: 0,
    skippedEvents: 0,
    plan: null,
    ...facts,
  };
}

const admission: Admission = {
  grant: { kind: "grant", rateLimitStatus: null, settle: () => {} },
  id: "0199",
  requestId: "req_1",
  keyId: "key",
  operation: "chat",
  model: "model",
  stream: false,
  startedMs: 1_700_000_000_000,
  promptTokens: null,
  audioSeconds: null,
  characters: null,
  nanos: null,
  owners: [],
  route: { model: "model", tiers: [], size: 0 },
  onRecord: null,
  warning: null,
  closed: false,
};

function written(attempts: readonly AttemptRecord[], facts: Partial<CallRecord> = {}, known: PriceRates | null = rates): Receipt {
  return receiptOf(recorded(attempts, facts), admission, () => known);
}

describe("what an attempt costs", () => {
  test("is what its upstream said, whatever we counted", () => {
    expect(written([tried()])).toMatchObject({
      billedNanos: nanosOf(8, 4),
      delivered: tokens(8, 4),
      generatedTokens: 4,
      estimated: false,
      costUncertain: false,
      attempts: [{ nanos: nanosOf(8, 4), status: 200, afterMs: 5, tookMs: 20 }],
    });
  });

  test.each(["unreachable", "connect_timeout", "stale_socket", "overloaded", "rate_limited", "unauthorized", "invalid_request"] as const)(
    "is nothing, and that is certain, where the request was turned away: %s",
    (kind) => {
      const receipt = written([failed(kind, { outcome: kind === "stale_socket" ? "abandoned" : "failed" }), tried()]);
      expect(receipt.attempts[0]).toMatchObject({ nanos: 0, costUncertain: false, estimated: false, ...tokens(null, null), error: kind });
      expect(receipt).toMatchObject({ billedNanos: nanosOf(8, 4), costUncertain: false });
    },
  );

  test.each(["disconnected", "timed_out", "bad_response", "model_failed"] as const)(
    "is in doubt where work may have been done: %s",
    (kind) => {
      const receipt = written([failed(kind), tried()]);
      expect(receipt.attempts[0]).toMatchObject({ nanos: 0, costUncertain: true, estimated: false, ...tokens(null, null) });
      expect(receipt).toMatchObject({ billedNanos: nanosOf(8, 4), costUncertain: true, estimated: false });
    },
  );

  // `saturated`: the process that converts the audio was lost in the middle of long speech.
  test.each(["client_gone", "deadline", "key_revoked", "shutting_down", "internal", "saturated"] as const)(
    "is that of the prompt where we left: %s",
    (kind) => {
      const receipt = written([failed(kind, { outcome: "abandoned" })], { state: "abandoned", bytesOut: 0 });
      expect(receipt).toMatchObject({
        billedNanos: estimatedPrompt * inputNanos,
        costUncertain: true,
        estimated: true,
        partial: true,
        delivered: tokens(null, null),
        generatedTokens: 0,
      });
    },
  );

  test("is on the budgets of the channel that charges for it, although nobody answered", () => {
    const route = { model: "model", tiers: [[candidate("one", { tags: ["gpu"] }), candidate("two")]], size: 2 };
    const tagsAfter = (attempts: readonly AttemptRecord[]): unknown => {
      const { channel, upstreamModel, channelTags } = receiptOf(
        recorded(attempts, { state: "abandoned" }),
        { ...admission, owners: ["group"], route },
        () => rates,
      );
      return [channel, upstreamModel, channelTags];
    };
    const left = failed("client_gone", { outcome: "abandoned" });
    expect(tagsAfter([left])).toEqual([null, null, ["one", "gpu"]]);
    expect(tagsAfter([failed("overloaded", { channel: "two" }), left])).toEqual([null, null, ["one", "gpu"]]);
    expect(tagsAfter([left, failed("overloaded", { channel: "two" })])).toEqual([null, null, ["one", "gpu"]]);
    expect(tagsAfter([left, failed("client_gone", { channel: "two", outcome: "abandoned" })])).toEqual([null, null, ["two"]]);
    expect(tagsAfter([failed("overloaded")])).toEqual([null, null, []]);
    expect(tagsAfter([tried()])).toEqual(["one", "large", ["gpu"]]);
  });

  test("is nothing where it was never sent", () => {
    const receipt = written([failed("client_gone", { outcome: "abandoned", sent: false })], { state: "abandoned", bytesOut: 0 });
    expect(receipt).toMatchObject({ billedNanos: 0, costUncertain: false, estimated: false, generatedTokens: null });
  });

  test("is unknown where its price is, and the whole with it; where nothing was asked, it is nothing", () => {
    expect(written([tried()], {}, null)).toMatchObject({ billedNanos: null, attempts: [{ nanos: null, ...tokens(8, 4) }] });
    expect(written([failed("overloaded")], { state: "failed" }, null)).toMatchObject({ billedNanos: 0 });
    expect(written([], { state: "failed" }, null)).toMatchObject({ billedNanos: 0, attempts: [] });
  });

  test("counts on a budget without what is unknown of it, such as searches without a rate, or as reserved where no price is left", () => {
    const searched = tried({ usage: { ...nothingCounted, promptTokens: 8, completionTokens: 4, webSearches: 3, fileSearches: 1 } });
    expect(written([searched])).toMatchObject({ billedNanos: null, costUncertain: false, attempts: [{ nanos: null }] });
    const budgeted = (attempts: readonly AttemptRecord[], ratesOf: RatesOf): Receipt =>
      receiptOf(recorded(attempts), { ...admission, nanos: 1_000_000 }, ratesOf);
    expect(budgeted([tried(), searched], () => rates)).toMatchObject({
      billedNanos: 2 * nanosOf(8, 4),
      costUncertain: true,
      attempts: [{ nanos: nanosOf(8, 4) }, { nanos: null }],
    });
    const advice = ["known", "unknown"].map((model) => ({ model, usage: { ...nothingCounted, promptTokens: 2, completionTokens: 1 } }));
    const advised = tried({ usage: { ...nothingCounted, promptTokens: 8, completionTokens: 4, advice } });
    expect(budgeted([advised], (_, model) => (model === "unknown" ? null : rates)).billedNanos).toBe(nanosOf(8, 4) + nanosOf(2, 1));
    expect(budgeted([searched], () => null)).toMatchObject({ billedNanos: 1_000_000, costUncertain: true });
    expect(budgeted([tried()], () => rates)).toMatchObject({ billedNanos: nanosOf(8, 4), costUncertain: false });
  });

  test("is nothing at the models of this machine", () => {
    const book = makePriceBook([shippedPrices()]);
    const receipt = receiptOf(recorded([tried({ provider: "embedded" })]), admission, (provider, model, atMs) =>
      priceOf(book, { provider, model }, atMs),
    );
    expect(receipt).toMatchObject({ billedNanos: 0, costUncertain: false, attempts: [{ nanos: 0, ...tokens(8, 4) }] });
  });
});

test("the cost of an answer that was of no use is that of the recording: the upstream did its work", () => {
  const expected = { ...nothingCounted, audioSeconds: 9 };
  const unusable = failed("unsupported", { expected, failure: { ...failure("unsupported", "JSON for srt"), served: true } });
  const heard = tried({ usage: { ...nothingCounted, audioSeconds: 9 }, expected });
  const receipt = written([unusable, heard], { operation: "transcription" }, { seconds: 7_000_000 });
  const [first, second] = receipt.attempts;
  expect(second!.nanos).toBeGreaterThan(0);
  expect(first).toMatchObject({ nanos: second!.nanos, costUncertain: true, audioSeconds: 9 });
  expect(receipt.delivered.audioSeconds).toBe(9);
});

describe("what was delivered", () => {
  test("is nothing where no byte left, whatever was made", () => {
    const gone = tried({ outcome: "abandoned", failure: failure("client_gone", "left"), usage: null });
    expect(written([gone], { state: "abandoned", bytesOut: 0 })).toMatchObject({
      delivered: tokens(null, null),
      generatedTokens: 5,
      billedNanos: nanosOf(estimatedPrompt, 5),
    });
  });

  test("is what came before a break, and what another channel added", () => {
    const broken = tried({ outcome: "failed", failure: failure("interrupted", "cut"), usage: null });
    expect(written([broken], { state: "interrupted" })).toMatchObject({ delivered: tokens(estimatedPrompt, 5), generatedTokens: 5 });
    expect(written([broken, tried({ channel: "two" })])).toMatchObject({ delivered: tokens(estimatedPrompt + 8, 9), generatedTokens: 9 });
  });

  test("is empty, and an answer, where a recording is silent", () => {
    const heard = tried({ usage: { ...nothingCounted, audioSeconds: 3 }, expected: { ...nothingCounted, audioSeconds: 9 } });
    expect(written([heard], { operation: "transcription", bytesOut: 0 }).delivered).toMatchObject({
      audioSeconds: 3,
      ...tokens(null, null),
    });
  });

  test("of a call in parts is the sum of them, each with its own length", () => {
    const part = (characters: number, facts: Partial<AttemptRecord> = {}): AttemptRecord =>
      tried({ usage: null, expected: { ...nothingCounted, characters, promptTokens: 50, completionTokens: 90 }, ...facts });
    const receipt = written([part(300), part(200, failed("overloaded")), part(200)], { operation: "speech" }, { characters: 1_000_000 });
    // A part that is tried again is still one part.
    expect(receipt.delivered.characters).toBe(500);
    expect(receipt).toMatchObject({ billedNanos: 500, estimated: false });
  });
});

describe("what was wasted by asking two", () => {
  const lost = tried({ outcome: "abandoned", failure: lostRace, usage: null, outputTokens: 0 });

  test("is the cost of the slower one, whichever that is", () => {
    expect(written([lost, tried({ hedge: true })]).hedgeWasteNanos).toBe(estimatedPrompt * inputNanos);
    expect(written([tried(), { ...lost, hedge: true }]).hedgeWasteNanos).toBe(estimatedPrompt * inputNanos);
  });

  test("is nothing where both were left, or one was refused", () => {
    const left = failed("client_gone", { outcome: "abandoned" });
    expect(written([left, { ...left, hedge: true }], { state: "abandoned", bytesOut: 0 }).hedgeWasteNanos).toBe(0);
    expect(written([tried(), failed("overloaded", { hedge: true })]).hedgeWasteNanos).toBe(0);
  });
});

test("the plan of a call says who was taken in spite of an open breaker, and what was the matter with it", () => {
  const [well, open, other] = [candidate("one"), candidate("two"), candidate("three")];
  const skipped = (who: typeof well) =>
    ({ candidate: who, because: "cooling", untilMs: 3_000, scope: "host", cause: "unreachable" }) as const;
  const plan: Candidates = {
    ok: true,
    mode: "normal",
    candidates: [{ candidate: well, tier: 0, probe: false }],
    reserve: [open, other].map((who) => ({ candidate: who, tier: 0, probe: false, lastResort: true })),
    skipped: [skipped(open), skipped(other)],
  };
  const attempts = [failed("overloaded", { channel: "one", model: "m" }), tried({ channel: "two", model: "m" })];
  expect(written(attempts, { plan }).plan).toMatchObject([
    { channel: "one", verdict: "taken", cause: null },
    { channel: "two", verdict: "taken", cause: "unreachable", forMs: 2_000 },
    { channel: "three", verdict: "cooling", cause: "unreachable" },
  ]);
});

test("the plan of a call names the candidates that it looked at, and draws no more of them for its receipt", () => {
  const [one, two, three] = [candidate("one"), candidate("two"), candidate("three")];
  const choice = (who: typeof one) => ({ candidate: who, tier: 0, probe: false });
  const plan: Candidates = {
    ok: true,
    mode: "normal",
    drawn: [choice(one), choice(two)],
    get candidates(): never {
      throw new Error("drawn for a receipt");
    },
    get reserve(): never {
      throw new Error("drawn for a receipt");
    },
    skipped: [{ candidate: three, because: "saturated", untilMs: null, scope: null, cause: null }],
  };
  expect(written([tried({ channel: "one", model: "m" })], { plan }).plan).toMatchObject([
    { channel: "one", verdict: "taken" },
    { channel: "two", verdict: "ready" },
    { channel: "three", verdict: "saturated" },
  ]);
});

test("whatever its attempts were, the sums of a receipt are those of its rows", () => {
  const kinds = ["client_gone", "timed_out", "overloaded", "interrupted", "disconnected", "deadline", "stale_socket"] as const;
  const one = fc.record({
    outcome: fc.constantFrom<AttemptRecord["outcome"]>("answered", "failed", "abandoned"),
    kind: fc.constantFrom<FailureKind>(...kinds),
    sent: fc.boolean(),
    outputTokens: fc.nat(50),
    reported: fc.boolean(),
  });
  const property = fc.property(fc.array(one, { maxLength: 4 }), fc.boolean(), (all, priced) => {
    const made = all.map(({ outcome, kind, sent, outputTokens, reported }) =>
      outcome === "answered"
        ? tried({ outputTokens, ...(reported ? {} : { usage: null }) })
        : failed(kind, { outcome, sent: sent || outputTokens > 0, outputTokens }),
    );
    const receipt = written(made, {}, priced ? rates : null);
    const { attempts } = receipt;
    const generated = attempts.reduce((sum, { completionTokens }) => sum + (completionTokens ?? 0), 0);
    expect(receipt.generatedTokens ?? 0).toBe(generated);
    expect(receipt.delivered.completionTokens ?? 0).toBeLessThanOrEqual(generated);
    expect(receipt.costUncertain).toBe(attempts.some(({ costUncertain }) => costUncertain));
    expect(receipt.billedNanos).toBe(
      attempts.some(({ nanos }) => nanos === null) ? null : attempts.reduce((sum, { nanos }) => sum + nanos!, 0),
    );
    for (const { promptTokens, completionTokens, nanos, estimated } of attempts) {
      if (priced) expect(nanos).toBe(nanosOf(promptTokens ?? 0, completionTokens ?? 0));
      if (promptTokens === null) expect(estimated).toBe(false);
    }
  });
  fc.assert(property, { numRuns: 300 });
});

describe("the books", () => {
  const key = {
    id: "key",
    name: "key",
    models: null,
    operations: null,
    channels: null,
    expiresMs: null,
    splits: { audio: false, input: false },
    group: null,
    limits: unlimited,
  } as const;

  function books(
    close: (receipt: Receipt) => Promise<void> = () => Promise.resolve(),
    ratesOf: RatesOf = () => rates,
    observe: () => void = () => {},
  ) {
    const bugs: unknown[] = [];
    const settled: (Demand | null)[] = [];
    const receipts: Receipt[] = [];
    const askedLimits: AskedCall[] = [];
    const ledger = new Ledger({
      limiter: {
        precheck: () => null,
        reserveSlot: () => ({ kind: "slot", release: () => {} }),
        preview: () => [],
        admit: (_key, asked) => {
          askedLimits.push(asked);
          return { kind: "grant", rateLimitStatus: null, settle: (truth) => void settled.push(truth) };
        },
      },
      receipts: {
        full: false,
        open: () => Promise.resolve(),
        openDeferred: () => {},
        close: (receipt) => {
          receipts.push(receipt);
          return close(receipt);
        },
      },
      ratesOf,
      wallMs: () => 1_700_000_000_000,
      log: () => {},
      observe,
      onBug: (error) => void bugs.push(error),
    });
    const grant = { kind: "grant", rateLimitStatus: null, settle: (truth: Demand | null) => void settled.push(truth) } as const;
    return { ledger, settled, receipts, askedLimits, bugs, entered: { ...admission, grant, closed: false } };
  }

  test("ask for the price of a model once for each provider, however many channels have it", () => {
    const asked: string[] = [];
    const { ledger } = books(undefined, (provider, model) => {
      asked.push(`${provider} ${model}`);
      return provider === "dear" ? { ...rates, output: 3 * rates.output! } : rates;
    });
    const tier = Array.from({ length: 2_000 }, (_, at) => candidate(`c${at}`, { provider: at % 2 === 0 ? "cheap" : "dear" }));
    const ask = readChatRequest(new TextEncoder().encode('{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":1000}'));
    if (isFailure(ask)) throw new Error(ask.detail);
    const onLarge = ledger.estimate(ask, { model: "m", tiers: [tier], size: tier.length });
    expect(asked).toEqual(["cheap m", "dear m"]);
    // The dearest of all is reserved for.
    expect(onLarge.nanos).toBe(ledger.estimate(ask, { model: "m", tiers: [[tier[1]!]], size: 1 }).nanos);
    expect(onLarge.nanos).toBeGreaterThan(ledger.estimate(ask, { model: "m", tiers: [[tier[0]!]], size: 1 }).nanos!);
  });

  test("give limits nothing of the request to keep, so that a long stream does not hold its body", () => {
    const { ledger, askedLimits } = books();
    const ask = readChatRequest(new TextEncoder().encode('{"model":"m","messages":[{"role":"user","content":"hi"}]}'));
    if (isFailure(ask)) throw new Error(ask.detail);
    const facts: CallFacts = {
      id: "req",
      keyId: "key",
      operation: "chat",
      model: "m",
      stream: true,
      bytesIn: ask.body.length,
      startedMs: 0,
      waitedMs: 0,
      admission: null,
    };
    const admitted = ledger.admit("receipt", facts, key, ask, { model: "m", tiers: [[candidate("c")]], size: 1 });
    expect(admitted).toBe(askedLimits[0] as Admission);
    expect(admitted).toMatchObject({ id: "receipt", grant: { kind: "grant" } });
    const held = Object.values(admitted);
    expect(held.length).toBeGreaterThan(10);
    expect(held.includes(ask) || held.includes(ask.body) || held.includes(facts)).toBe(false);
  });

  test("hold a call once, however often it ends", async () => {
    const { ledger, settled, receipts, entered } = books();
    for (const state of ["complete", "abandoned"] as const) await ledger.record(recorded([tried()], { admission: entered, state }));
    expect(receipts.map(({ state }) => state)).toEqual(["complete"]);
    expect(settled).toEqual([{ tokens: 12, audioSeconds: 0, characters: 0, nanos: nanosOf(8, 4) }]);
  });

  test("count what was made for a client that left, also where it saw nothing of it", async () => {
    const { ledger, settled, entered } = books();
    await ledger.record(
      recorded([failed("client_gone", { outcome: "abandoned" })], { admission: entered, state: "abandoned", bytesOut: 0 }),
    );
    expect(settled).toEqual([{ tokens: estimatedPrompt, audioSeconds: 0, characters: 0, nanos: estimatedPrompt * inputNanos }]);
  });

  test("settle a call and close its receipt although what observes calls has a bug, which is reported", async () => {
    const bug = new Error("a bug");
    const { ledger, settled, receipts, bugs, entered } = books(undefined, undefined, () => {
      throw bug;
    });
    await ledger.record(recorded([tried()], { admission: entered }));
    expect([settled.length, receipts.length, bugs]).toEqual([1, 1, [bug]]);
    expect(ledger.record(recorded([], { admission: null }))).toBeNull();
    expect(bugs).toEqual([bug, bug]);
  });

  test("give back what was taken where nobody was asked", async () => {
    const { ledger, settled, receipts, entered } = books();
    await ledger.record(recorded([], { admission: entered, state: "failed" }));
    expect(settled).toEqual([null]);
    expect(receipts).toHaveLength(1);
  });

  test("that are closed already do not make a call fail", async () => {
    const { ledger, entered } = books(() => Promise.reject(new Error("closed")));
    expect(await ledger.record(recorded([tried()], { admission: entered }))).toBeUndefined();
  });

  test("give back what was taken for a call that cannot be on record, and refuse it", () => {
    const { ledger, settled, entered } = books();
    const refusal = ledger.lost({ ...entered, onRecord: Promise.resolve(true) });
    expect([refusal.failure.kind, refusal.retryAfterMs]).toEqual(["store_unavailable", 5_000]);
    expect(settled).toEqual([null]);
  });

  test("have nothing of a call that was not let in", () => {
    const { ledger, receipts } = books();
    expect(ledger.record(recorded([], { status: 401, state: "failed" }))).toBeNull();
    expect(receipts).toEqual([]);
    expect(ledger.precheck(key)).toBeNull();
  });
});

describe("what a receipt says about the end of an answer", () => {
  test("is only what is worth knowing, whatever word the upstream has for it", () => {
    const finishes = ["stop", "tool_calls", "length", "max_tokens", "content_filter", "refusal", "something new", null];
    expect(finishes.map((finish) => written([tried()], { finish }).finish)).toEqual([
      ...[null, null, "length", "length", "content_filter", "content_filter"],
      ...[null, null],
    ] as Receipt["finish"][]);
    expect(written([tried()], { finish: "stop", refused: true }).finish).toBe("content_filter");
  });
});

describe("what caches saved", () => {
  const cheap: PriceRates = { input: 1_000_000_000, cachedInput: 100_000_000, cacheWrite: 1_250_000_000, output: 2_000_000_000 };
  const usage = { ...nothingCounted, promptTokens: 100, completionTokens: 4 };

  test("is the price of the same tokens without a cache, less what they cost", () => {
    expect(written([tried({ usage: { ...usage, cachedTokens: 60 } })], {}, cheap).cacheSavedNanos).toBe(60 * 900);
    expect(written([tried({ usage: { ...usage, cachedTokens: 60, cacheWriteTokens: 40 } })], {}, cheap).cacheSavedNanos).toBe(
      60 * 900 - 40 * 250,
    );
  });

  test("is a loss where a cache was only filled", () => {
    expect(written([tried({ usage: { ...usage, cacheWriteTokens: 40 } })], {}, cheap).cacheSavedNanos).toBe(-40 * 250);
  });

  test("is unknown without a price, and nothing where no cache was used", () => {
    expect(written([tried({ usage: { ...usage, cachedTokens: 60 } })], {}, null).cacheSavedNanos).toBeNull();
    expect(written([tried({ usage })], {}, cheap).cacheSavedNanos).toBeNull();
  });
});
