// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { ReceiptQuery } from "../../src/gateway/storage.ts";
import type { Database } from "../../src/store/database.ts";
import { idAt } from "../../src/store/receipts/receipt-conditions.ts";
import { entryOf, entryOfLine } from "../../src/store/receipts/receipt-entry.ts";
import { lineOf, receiptLine } from "../../src/store/receipts/receipt-line.ts";
import { addReceipts, makeReceiptStorage } from "../../src/store/receipts/receipt-table.ts";
import { startRetention } from "../../src/app/durable.ts";
import { retain } from "../../src/store/retention.ts";
import { sql } from "../../src/store/sql.ts";
import { lookAtClock } from "../../src/store/steady-clock.ts";
import { ownRequestName, receiptIdIn } from "../../src/store/receipts/stored-request.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { type AttemptReceipt, type Receipt, requestNameOf } from "../../src/usage/receipt.ts";
import { engines } from "../support/databases.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { anyText, numRuns } from "../support/properties.ts";

// A real server is started and stopped; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const all: ReceiptQuery = { keyId: null, model: null, channel: null, state: null, sinceMs: null, untilMs: null, before: null, limit: 100 };
const hour = 3_600_000;

/** An id as a call gets it that begins at this moment. */
function idOf(ms: number): string {
  return Bun.randomUUIDv7("hex", ms);
}

async function add(database: Database, receipts: readonly Receipt[]): Promise<readonly Receipt[]> {
  const fresh = await database.transaction(async (inside) => {
    const added = await addReceipts(inside, receipts);
    await addToSums(inside, added);
    return added.map(({ row }) => row[0]);
  });
  // One that came twice is new once.
  return fresh.map((id) => receipts.find((receipt) => receipt.id === id)!);
}

describe.each(engines)("receipts on $name", (engine) => {
  const it = test.skipIf(engine.skipped !== null);

  it("are read back as they were, with their attempts and their plan", async () => {
    await using database = await engine.open();
    const receipts = makeReceiptStorage(database);
    const receipt = sampleReceipt({
      delivered: {
        promptTokens: 0,
        cachedTokens: null,
        completionTokens: null,
        reasoningTokens: null,
        audioSeconds: 12.345,
        characters: 7,
      },
      error: "overloaded",
      state: "failed",
      status: 503,
      estimated: true,
      plan: [{ channel: "a", model: "b", tier: null, verdict: "cooling", cause: "overloaded", forMs: 1_000 }],
      attempts: [1, 2, 3].map((number) => ({
        ...sampleReceipt().attempts[0]!,
        channel: `channel-${number}`,
        outcome: "failed" as const,
        error: "overloaded",
        blame: "channel" as const,
        status: null,
        nanos: null,
        audioSeconds: number / 1_000,
      })),
    });
    expect(await add(database, [receipt])).toEqual([receipt]);
    expect(await receipts.find(receipt.id)).toEqual(receipt);
    expect(await receipts.find(receipt.requestId)).toEqual(receipt);
    expect(await receipts.find("nobody's")).toBeNull();
    expect(await receipts.find("\0' or 1=1 --")).toBeNull();
    expect(await receipts.list(all)).toEqual([receipt]);
  });

  it("are read back exactly, whatever is in their names", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    const text = fc.oneof(
      fc.constantFrom("", " ", "null", "NULL", '"', "\\", '\\"', "{}", ",", "{a,b}", "'", "\n", "$1", "?1", "ä😀"),
      fc.string({ unit: fc.constantFrom(..."a\"\\{},' \t😀"), maxLength: 8 }),
    );
    const figure = fc.constantFrom(null, 0, 1, 2);
    const plain = sampleReceipt().attempts[0]!;
    const attempt: fc.Arbitrary<AttemptReceipt> = fc.record({
      channel: text,
      model: text,
      afterMs: fc.nat(9),
      tookMs: fc.nat(9),
      outcome: fc.constantFrom("answered", "failed", "abandoned"),
      status: fc.constantFrom(null, 200, 503),
      error: fc.option(text, { nil: null }),
      blame: fc.constantFrom(null, "client", "channel", "gateway"),
      hedge: fc.boolean(),
      nanos: figure,
      costUncertain: fc.boolean(),
      estimated: fc.boolean(),
      promptTokens: figure,
      cachedTokens: figure,
      completionTokens: figure,
      reasoningTokens: figure,
      audioSeconds: figure,
      characters: figure,
    });
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { maxLength: 2 }), text, text, async (attempts, channel, upstreamModel) => {
        const receipt = sampleReceipt({
          channel,
          upstreamModel,
          attempts,
        });
        const single = sampleReceipt({ channel, upstreamModel, attempts: [{ ...plain, channel, model: upstreamModel }] });
        await add(database, [receipt, single]);
        expect(await storage.find(receipt.id)).toEqual(receipt);
        expect(await storage.find(single.id)).toEqual(single);
        expect(lineOf(receiptLine(single))).toEqual({ kind: "receipt", receipt: single });
      }),
      { numRuns: numRuns(30) },
    );
  });

  it("store their only attempt in a row of its own as soon as one field differs", async () => {
    await using database = await engine.open();
    const plain = sampleReceipt().attempts[0]!;
    const other: AttemptReceipt = {
      channel: "other",
      model: "other",
      afterMs: 2,
      tookMs: 3,
      outcome: "abandoned",
      status: 206,
      error: "overloaded",
      blame: "gateway",
      hedge: true,
      nanos: 4,
      costUncertain: true,
      estimated: true,
      promptTokens: 5,
      cachedTokens: 6,
      completionTokens: 7,
      reasoningTokens: 8,
      audioSeconds: 9,
      characters: 10,
    };
    const fields = Object.keys(other) as (keyof AttemptReceipt)[];
    expect(fields.toSorted()).toEqual((Object.keys(plain) as (keyof AttemptReceipt)[]).toSorted());
    const receipts = fields.map((field) => sampleReceipt({ attempts: [{ ...plain, [field]: other[field] }] }));
    await add(database, receipts);
    for (const receipt of receipts) {
      expect(await makeReceiptStorage(database).find(receipt.id)).toEqual(receipt);
      expect(lineOf(receiptLine(receipt))).toEqual({ kind: "receipt", receipt });
    }
    // All but the two times.
    expect((await database.all<{ n: number }>(sql`select count(*) as n from attempts`))[0]?.n).toBe(fields.length - 2);
  });

  it("have a row for each attempt except those that say the same as their receipt", async () => {
    await using database = await engine.open();
    const plain = sampleReceipt().attempts[0]!;
    const failed = { ...plain, channel: "channel-2", outcome: "failed" as const, error: "overloaded", nanos: 0 };
    await add(database, [sampleReceipt(), sampleReceipt({ attempts: [failed, plain] }), sampleReceipt({ attempts: [] })]);
    const rows = await database.all<{ channel: string; number: number }>(sql`select channel, number from attempts order by number`);
    expect(rows).toEqual([
      { channel: "channel-2", number: 1 },
      { channel: "channel-1", number: 2 },
    ]);
  });

  it("are found by their generated request id, even if a client sent the same id later", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    const one = sampleReceipt();
    const made = sampleReceipt({ requestId: requestNameOf(one.id), id: one.id });
    await add(database, [made]);
    expect(await storage.find(made.requestId)).toEqual(made);
    const stored = await database.all<{ request_id: string | null }>(sql`select request_id from receipts`);
    expect(stored).toEqual([{ request_id: null }]);
    const chosen = sampleReceipt({ requestId: made.requestId });
    await add(database, [chosen]);
    expect(await storage.find(made.requestId)).toEqual(made);
    expect(await storage.find(chosen.id)).toEqual(chosen);
    expect(await storage.find(requestNameOf(chosen.id))).toBeNull();
    expect(await storage.find(made.requestId.toUpperCase())).toBeNull();
  });

  it("are stored once, however often they are written", async () => {
    await using database = await engine.open();
    const receipts = Array.from({ length: 200 }, () => sampleReceipt());
    expect((await add(database, receipts.slice(0, 120))).length).toBe(120);
    const again = await add(database, [...receipts, ...receipts]);
    expect(new Set(again)).toEqual(new Set(receipts.slice(120)));
    expect(await add(database, receipts)).toEqual([]);
    expect((await database.all<{ n: number }>(sql`select count(*) as n from receipts`))[0]?.n).toBe(200);
    expect((await makeReceiptStorage(database).list({ ...all, limit: 200 })).flatMap(({ attempts }) => attempts).length).toBe(200);
    expect((await database.all<{ n: number }>(sql`select cast(sum(calls) as bigint) as n from usage_days`))[0]?.n).toBe(200);
  });

  it("are never hidden by a request id that another client sent", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    const beganMs = Date.UTC(2026, 5, 1);
    const at = (hours: number, requestId?: string) => {
      const id = idOf(beganMs + hours * hour);
      return sampleReceipt({ id, startedMs: beganMs + hours * hour, requestId: requestId ?? requestNameOf(id) });
    };
    const made = at(1);
    const copied = at(2, made.requestId);
    const [first, second, third] = [at(3, "mine"), at(4, "mine"), at(5, "mine")];
    await add(database, [made, copied, first, second, third]);
    expect((await storage.find(made.requestId))?.id).toBe(made.id);
    expect(await storage.namesakes(made)).toEqual([copied.id]);
    expect(await storage.namesakes(third)).toEqual([second.id, first.id]);
    expect((await storage.find(copied.id))?.id).toBe(copied.id);
  });

  it("are found by request id, the newest first, and listed newest first in pages", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    const beganMs = Date.UTC(2026, 5, 1);
    const receipts = Array.from({ length: 30 }, (_, at) =>
      sampleReceipt({
        id: idOf(beganMs + at * hour),
        startedMs: beganMs + at * hour,
        requestId: "the same",
        keyId: `key-${at % 2}`,
        channel: at % 3 === 0 ? null : "channel-1",
        model: at % 5 === 0 ? "model-2" : "model-1",
        state: at % 7 === 0 ? "abandoned" : "complete",
      }),
    );
    await add(database, receipts);
    const newest = receipts.toReversed();
    expect((await storage.find("the same"))?.id).toBe(newest[0]!.id);
    const ids = async (query: Partial<ReceiptQuery>) => (await storage.list({ ...all, ...query })).map(({ id }) => id);
    const where = (holds: (receipt: Receipt) => boolean) => newest.filter(holds).map(({ id }) => id);
    expect(await ids({})).toEqual(where(() => true));
    expect(await ids({ limit: 10, before: newest[9]!.id })).toEqual(newest.slice(10, 20).map(({ id }) => id));
    expect(await ids({ keyId: "key-1", model: "model-1" })).toEqual(where(({ keyId, model }) => keyId === "key-1" && model === "model-1"));
    expect(await ids({ channel: "channel-1", state: "abandoned" })).toEqual(
      where(({ channel, state }) => channel === "channel-1" && state === "abandoned"),
    );
    const sinceMs = beganMs + 5 * hour;
    const untilMs = beganMs + 9 * hour;
    expect(await ids({ sinceMs, untilMs })).toEqual(where(({ startedMs }) => startedMs >= sinceMs && startedMs < untilMs));
    expect(await ids({ model: "\0" })).toEqual([]);
  });

  it("are found by what they cost, how long they took and the status that the client got, in steps that read no more than a part", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    const beganMs = Date.UTC(2026, 5, 1);
    const receipts = Array.from({ length: 40 }, (_, at) =>
      sampleReceipt({
        id: idOf(beganMs + at * 60_000),
        startedMs: beganMs + at * 60_000,
        keyId: `key-${at % 2}`,
        status: at % 5 === 0 ? 429 : at % 7 === 0 ? 503 : 200,
        tookMs: at * 100,
        billedNanos: at % 3 === 0 ? null : at * 1_000,
      }),
    );
    await add(database, receipts);
    const newest = receipts.toReversed();
    const where = (holds: (receipt: Receipt) => boolean) => newest.filter(holds).map(({ id }) => id);
    const ids = async (query: Partial<ReceiptQuery>) => (await storage.list({ ...all, ...query })).map(({ id }) => id);
    for (const keyId of [null, "key-1"]) {
      const own = (holds: (receipt: Receipt) => boolean) =>
        where((receipt) => (keyId === null || receipt.keyId === keyId) && holds(receipt));
      expect(await ids({ keyId, figures: { statusMin: 400, statusMax: 499 } })).toEqual(own(({ status }) => status === 429));
      expect(await ids({ keyId, figures: { tookMsMin: 2_000 } })).toEqual(own(({ tookMs }) => tookMs >= 2_000));
      expect(await ids({ keyId, figures: { nanosMin: 5_000, nanosMax: 20_000 } })).toEqual(
        own(({ billedNanos }) => billedNanos !== null && billedNanos >= 5_000 && billedNanos <= 20_000),
      );
      // The oldest alone matches: each step reads ten, and the last finds it.
      const query = { ...all, keyId, figures: { nanosMin: 1_000, nanosMax: 1_000 } };
      const steps: (readonly string[])[] = [];
      let before: string | null = null;
      do {
        const from: string | null = await storage.horizon({ ...query, before }, 10);
        steps.push((await storage.list({ ...query, before, from })).map(({ id }) => id));
        before = from;
      } while (before !== null);
      expect(steps).toEqual([[], [], [], [receipts[1]!.id]]);
    }
  });

  it("are stored whatever their names and figures are", async () => {
    await using database = await engine.open();
    const text = fc.oneof(anyText({ maxLength: 40 }), fc.constantFrom("\0", "\ud800", "x".repeat(5_000), "😀".repeat(300)));
    const figure = fc.oneof(fc.double(), fc.constantFrom(null, -1, Number.NaN, Infinity, 1e300, 0.5));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(text, text, figure, figure), { minLength: 1, maxLength: 5 }), async (some) => {
        const receipts = some.map(([one, other, number, another]) => {
          const sample = sampleReceipt();
          const figures = { promptTokens: number, cachedTokens: another, completionTokens: number, reasoningTokens: another };
          const rest = { audioSeconds: number, characters: another };
          return sampleReceipt({
            requestId: one,
            model: other,
            channel: one,
            upstreamModel: other,
            error: one,
            status: number ?? 0,
            tookMs: another ?? 0,
            billedNanos: number,
            hedgeWasteNanos: another ?? 0,
            delivered: { ...figures, ...rest },
            attempts: [
              { ...sample.attempts[0]!, ...figures, ...rest, channel: one, model: other, error: other, nanos: another, status: number },
            ],
            plan: [{ channel: one, model: other, tier: 0, verdict: one, cause: other, forMs: 0 }],
          });
        });
        expect((await add(database, receipts)).length).toBe(receipts.length);
        for (const { id } of receipts) expect((await makeReceiptStorage(database).find(id))?.id).toBe(id);
      }),
      { numRuns: numRuns(13) },
    );
  });

  it("and sums are not deleted by a clock that jumps, before it has gone on for a day", async () => {
    await using database = await engine.open();
    const beganMs = Date.UTC(2026, 5, 30);
    const clock = { wallMs: beganMs };
    const logged: unknown[] = [];
    const log = {
      info: () => undefined,
      warn: (event: string, { detail = "" }: { readonly detail?: string } = {}) => void logged.push([event, detail]),
    };
    let armed = Promise.withResolvers<() => void>();
    const after = (_: number, then: () => void): (() => void) => {
      armed.resolve(then);
      return () => undefined;
    };
    const receipts = { sync: false, keepMs: 90 * 24 * hour, keepHoursMs: 90 * 24 * hour, keptShare: 1 };
    const start = (): (() => void) => startRetention(database, { receipts }, log, after, () => clock.wallMs);
    const round = async (wallMs: number): Promise<number> => {
      const run = await armed.promise;
      armed = Promise.withResolvers();
      clock.wallMs = wallMs;
      run();
      await armed.promise;
      const [row] = await database.all<{ receipts: number; hours: number }>(
        sql`select (select count(*) from receipts) as receipts, (select count(*) from usage_hours) as hours`,
      );
      expect(row?.hours).toBe(row?.receipts);
      return row!.receipts;
    };
    const rounds = async (fromMs: number, count: number): Promise<readonly number[]> => {
      const left: number[] = [];
      for (let at = 0; at < count; at += 1) left.push(await round(fromMs + at * hour));
      return left;
    };
    const startedAt = (days: number) => beganMs - days * 24 * hour;
    await add(
      database,
      [100, 89, 3, 2].map((days) => sampleReceipt({ id: idOf(startedAt(days)), startedMs: startedAt(days), keyId: `key-${days}` })),
    );
    let stop = start();
    // Nothing is known of the clock of a store that has none of its times.
    expect(await rounds(beganMs, 25)).toEqual([...Array.from({ length: 24 }, () => 4), 3]);
    const yearMs = 365 * 24 * hour;
    expect(await rounds(beganMs + yearMs, 24)).toEqual(Array.from({ length: 24 }, () => 3));
    expect(logged).toEqual([["retention_trouble", expect.stringContaining("from 2026-07-01T00:00:00.000Z to 2027-06-30T00:00:00.000Z")]]);
    // Nor by one that is set right again, and jumps once more while no process runs.
    expect(await rounds(beganMs + 26 * hour, 24)).toEqual(Array.from({ length: 24 }, () => 3));
    stop();
    armed = Promise.withResolvers();
    stop = start();
    expect(await rounds(beganMs + yearMs, 24)).toEqual(Array.from({ length: 24 }, () => 3));
    expect(logged).toHaveLength(3);
    // A gateway that was switched off for so long catches up.
    expect(await round(beganMs + yearMs + 24 * hour)).toBe(0);
    expect(logged).toHaveLength(3);
    stop();
  });

  it("are deleted by a machine that runs for eight hours a week, but not sooner for a clock that goes back or far ahead", async () => {
    await using database = await engine.open();
    let nowMs = Date.UTC(2026, 5, 29);
    const run = async (pauseHours: number): Promise<boolean> => {
      nowMs += pauseHours * hour;
      const looks: boolean[] = [];
      for (let at = 0; at < 9; at += 1) looks.push((await lookAtClock(database, nowMs + at * hour)).steady);
      nowMs += 8 * hour;
      return looks.includes(true);
    };
    const week = 7 * 24 - 8;
    const year = 365 * 24;
    expect([await run(0), await run(week), await run(week)]).toEqual([false, false, true]);
    // One pause after a day that was believed is enough to doubt the clock again.
    expect([await run(week), await run(week), await run(week)]).toEqual([false, false, true]);
    expect([await run(week), await run(week), await run(year), await run(week)]).toEqual([false, false, false, false]);
    expect([await run(-year), await run(week), await run(week)]).toEqual([false, false, true]);
  });

  it("and hourly sums are deleted when they are old, and daily sums are not", async () => {
    await using database = await engine.open();
    const wallMs = Date.UTC(2026, 5, 30);
    const startedAt = (days: number) => wallMs - days * 24 * hour;
    const receipts = Array.from({ length: 1_300 }, (_, at) => {
      const startedMs = startedAt(at < 1_200 ? 40 + (at % 600) / 100 : 3);
      return sampleReceipt({ id: idOf(startedMs), startedMs, keyId: `key-${at}`, channel: null });
    });
    for (let at = 0; at < receipts.length; at += 500) await add(database, receipts.slice(at, at + 500));
    expect(await retain(database, { receiptsMs: null, hoursMs: null, wallMs })).toEqual({ days: 0, receipts: 0, hours: 0 });
    const hoursOfEverybody = new Set(receipts.slice(0, 1_200).map(({ startedMs }) => Math.floor(startedMs / hour))).size;
    expect(await retain(database, { receiptsMs: 30 * 24 * hour, hoursMs: 30 * 24 * hour, wallMs })).toEqual({
      days: 0,
      receipts: 1_200,
      hours: 1_200 + hoursOfEverybody,
    });
    const left = async (table: "receipts" | "attempts" | "usage_hours" | "usage_days") => {
      const tables = { receipts: sql`receipts`, attempts: sql`attempts`, usage_hours: sql`usage_hours`, usage_days: sql`usage_days` };
      return (await database.all<{ n: number }>(sql`select count(*) as n from ${tables[table]}`))[0]?.n;
    };
    expect([await left("receipts"), await left("attempts"), await left("usage_hours"), await left("usage_days")]).toEqual([
      100, 100, 100, 1_300,
    ]);
    expect((await makeReceiptStorage(database).list(all)).every(({ startedMs }) => startedMs === startedAt(3))).toBeTrue();
  });
});

test("a journal line becomes the same rows as the receipt that it contains", () => {
  const text = fc.oneof(anyText({ maxLength: 12 }), fc.constantFrom("", "\0", "\ud800x", "x".repeat(500), "😀".repeat(150)));
  const figure = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.nat(5_000),
    fc.constantFrom(null, -0, -1, 0.5, 2 ** 31, 2 ** 53, 1e300),
  );
  const figures = fc.record({
    promptTokens: figure,
    cachedTokens: figure,
    completionTokens: figure,
    reasoningTokens: figure,
    audioSeconds: figure,
    characters: figure,
  });
  const number = fc.oneof(fc.nat(5_000), fc.constantFrom(-1, 0.5, 2 ** 40, 1e300));
  const plain = fc.record({ delivered: figures, billedNanos: figure, afterMs: number, tookMs: number, text, flag: fc.boolean() });
  const plan = fc.option(fc.array(fc.record({ channel: text, model: text, tier: figure, verdict: text, cause: text, forMs: figure })), {
    nil: null,
  });
  fc.assert(
    fc.property(plain, plan, text, number, fc.array(figures, { maxLength: 3 }), (one, steps, requestId, startedMs, others) => {
      const { delivered, billedNanos, afterMs, tookMs, flag } = one;
      const base = sampleReceipt({ requestId, keyId: one.text, channel: one.text, startedMs, tookMs, delivered, billedNanos, plan: steps });
      const attempt = { ...base.attempts[0]!, ...delivered, channel: one.text, nanos: billedNanos, afterMs, tookMs };
      const failed = { ...attempt, outcome: "failed" as const, error: requestId, blame: "channel" as const, hedge: flag, status: tookMs };
      const receipts: readonly Receipt[] = [
        {
          ...base,
          requestId: requestNameOf(base.id),
          attempts: [attempt],
          partial: flag,
          warning: flag ? "truncated_audio" : null,
          finish: flag ? null : "length",
          cacheSavedNanos: billedNanos,
        },
        { ...base, attempts: [], state: "failed", error: requestId, channel: null, upstreamModel: null, estimated: flag },
        {
          ...base,
          attempts: [...others.map((figure) => ({ ...failed, ...figure })), attempt],
          costUncertain: flag,
          stream: flag,
          warning: requestId,
          finish: "content_filter",
        },
      ];
      for (const receipt of receipts) {
        const line = receiptLine(receipt);
        const parsed = lineOf(line);
        expect(parsed?.kind).toBe("receipt");
        if (parsed?.kind === "receipt") expect(parsed.receipt.warning).toBe(receipt.warning);
        if (parsed?.kind === "receipt") expect(parsed.receipt.finish).toBe(receipt.finish);
        if (parsed?.kind === "receipt") expect(entryOfLine(JSON.parse(line))).toEqual(entryOf(parsed.receipt));
      }
    }),
  );
  expect(entryOfLine([1, "an opening"])).toBeNull();
  for (const wrong of [null, "2", [2], [2, "id", null, "key", "dance"]]) expect(() => entryOfLine(wrong)).toThrow(TypeError);
});

test("a request id is stored only if it was not derived from the receipt's id", () => {
  const id = Bun.randomUUIDv7();
  expect(ownRequestName(requestNameOf(id), id)).toBeNull();
  const made = requestNameOf(id);
  const others = [made.slice(1), `${made}0`, made.slice(0, -1), made.replace("req_", "rex_"), made.toUpperCase(), id, ""];
  for (let at = 0; at < made.length; at += 1) others.push(`${made.slice(0, at)}~${made.slice(at + 1)}`);
  for (const other of others) expect(ownRequestName(other, id)).toBe(other);
  expect(receiptIdIn(made)).toBe(id);
  for (const other of others) expect(receiptIdIn(other)).not.toBe(id);
});

test("the id bound of a time sorts before each id of that time and after each earlier one", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2 ** 47 }), (ms) => {
      expect(idOf(ms) >= idAt(ms)).toBeTrue();
      expect(idOf(ms - 1) < idAt(ms)).toBeTrue();
    }),
  );
});
