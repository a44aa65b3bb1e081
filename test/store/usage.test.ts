// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { operations } from "../../src/operations/operation.ts";
import type { Database } from "../../src/store/database.ts";
import { addReceipts, makeReceiptStorage } from "../../src/store/receipts/receipt-table.ts";
import { retain } from "../../src/store/retention.ts";
import { entryOf } from "../../src/store/receipts/receipt-entry.ts";
import { everybody } from "../../src/keys/key.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { sql } from "../../src/store/sql.ts";
import { firstContentBoundsMs, firstContentBucket } from "../../src/usage/first-content.ts";
import { outcomeFigures, outcomeOf } from "../../src/usage/call-outcome.ts";
import type { OutcomeRow } from "../../src/usage/outcome-row.ts";
import type { AttemptReceipt, Receipt } from "../../src/usage/receipt.ts";
import { usageColumns, type UsageColumn, type UsageQuery, type UsageRow } from "../../src/usage/usage-row.ts";
import { engines } from "../support/databases.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { numRuns } from "../support/properties.ts";

// A real server is started and stopped; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const hour = 3_600_000;
const beganMs = Date.UTC(2026, 1, 27, 5);
const any: UsageQuery = { by: [], sinceMs: null, untilMs: null, keyId: null, model: null, channel: null };

async function add(database: Database, receipts: readonly Receipt[]): Promise<void> {
  for (let at = 0; at < receipts.length; at += 500) {
    await database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, receipts.slice(at, at + 500))));
  }
}

/** What the answer must be, told from the receipts themselves. */
function expected(receipts: readonly Receipt[], query: UsageQuery): readonly UsageRow[] {
  const sinceMs = query.sinceMs === null ? -Infinity : Math.floor(query.sinceMs / hour) * hour;
  const untilMs = query.untilMs === null ? Infinity : Math.ceil(query.untilMs / hour) * hour;
  const fitting = receipts.filter(
    ({ startedMs, keyId, model, channel }) =>
      startedMs >= sinceMs &&
      startedMs < untilMs &&
      (query.keyId === null || keyId === query.keyId) &&
      (query.model === null || model === query.model) &&
      (query.channel === null || channel === query.channel),
  );
  const groups = Map.groupBy(fitting, (receipt) => JSON.stringify(query.by.map((column) => valueOf(receipt, column) ?? "")));
  if (query.by.length === 0 && groups.size === 0) groups.set("[]", []);
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, group]) => {
      const sum = (figure: (receipt: Receipt) => number | null) => group.reduce((total, receipt) => total + (figure(receipt) ?? 0), 0);
      return {
        group: Object.fromEntries(query.by.map((column) => [column, valueOf(group[0]!, column)])),
        calls: group.length,
        failedCalls: sum(({ state }) => (state === "complete" ? 0 : 1)),
        promptTokens: sum(({ delivered }) => delivered.promptTokens),
        cachedTokens: sum(({ delivered }) => delivered.cachedTokens),
        completionTokens: sum(({ delivered }) => delivered.completionTokens),
        reasoningTokens: sum(({ delivered }) => delivered.reasoningTokens),
        audioSeconds: sum(({ delivered }) => (delivered.audioSeconds ?? 0) * 1_000) / 1_000,
        characters: sum(({ delivered }) => delivered.characters),
        nanos: sum(({ billedNanos }) => billedNanos),
        unpricedCalls: sum(({ billedNanos }) => (billedNanos === null ? 1 : 0)),
        uncertainCalls: sum(({ costUncertain }) => (costUncertain ? 1 : 0)),
        estimatedCalls: sum(({ estimated }) => (estimated ? 1 : 0)),
      };
    });
}

function valueOf({ keyId, model, channel, operation, startedMs }: Receipt, column: UsageColumn): string | null {
  const at = new Date(startedMs).toISOString();
  switch (column) {
    case "key":
      return keyId;
    case "model":
      return model;
    case "channel":
      return channel;
    case "operation":
      return operation;
    case "day":
      return at.slice(0, 10);
    case "hour":
      return `${at.slice(0, 13)}:00Z`;
    case "group":
      throw new Error("calls count for several groups");
  }
}

/** Calls that ended in every way, some of them in two groups. */
function withOutcome(receipt: Receipt, at: number): Receipt {
  const plain = sampleReceipt().attempts[0]!;
  const broken = { ...plain, outcome: "failed", error: "interrupted", completionTokens: 4 } as const;
  const second = { ...plain, channel: "channel-2" };
  const attempts = [
    [plain],
    [broken, second],
    [{ ...broken, status: 500, completionTokens: null }, second],
    [plain, { ...second, hedge: true }],
  ];
  return {
    ...receipt,
    requestId: `request-${at}`,
    tookMs: (at * 37) % 90_000,
    firstContentMs: (at * 13) % 9_000,
    finish: at % 7 === 0 ? "length" : at % 11 === 0 ? "content_filter" : null,
    cacheSavedNanos: at % 3 === 0 ? null : at % 5 === 0 ? -at : at,
    owners: at % 4 === 1 ? ["grp_1", "grp_2"] : [],
    attempts: attempts[at % 4]!,
  };
}

function expectedOutcomes(ended: readonly Receipt[], query: UsageQuery): readonly OutcomeRow[] {
  const sinceMs = query.sinceMs === null ? -Infinity : Math.floor(query.sinceMs / hour) * hour;
  const untilMs = query.untilMs === null ? Infinity : Math.ceil(query.untilMs / hour) * hour;
  const fitting = ended.filter(
    (receipt) =>
      receipt.startedMs >= sinceMs &&
      receipt.startedMs < untilMs &&
      (query.keyId === null || receipt.keyId === query.keyId) &&
      (query.groupId == null || receipt.owners.includes(query.groupId)) &&
      (query.model === null || receipt.model === query.model) &&
      Object.keys(outcomeOf(receipt)).length > 0,
  );
  const placed = fitting.flatMap((receipt) =>
    (query.by.includes("group") ? receipt.owners : [null]).map((group) => ({
      receipt,
      group: Object.fromEntries(query.by.map((column) => [column, column === "group" ? group : valueOf(receipt, column)])),
    })),
  );
  const groups = Map.groupBy(placed, ({ group }) => JSON.stringify(Object.values(group).map((value) => value ?? "")));
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, rows]) => ({
      group: rows[0]!.group,
      figures: Object.fromEntries(
        outcomeFigures.map((figure) => [figure, rows.reduce((sum, { receipt }) => sum + (outcomeOf(receipt)[figure] ?? 0), 0)]),
      ) as OutcomeRow["figures"],
    }));
}

/** A few days of everything. */
const receipts: readonly Receipt[] = Array.from({ length: 700 }, (_, at) =>
  sampleReceipt({
    keyId: `key-${at % 3}`,
    model: ["Model-A", "model-b", "ä-model"][at % 3]!,
    channel: at % 4 === 0 ? null : `channel-${at % 2}`,
    operation: operations[at % 3]!,
    state: at % 5 === 0 ? "failed" : "complete",
    startedMs: beganMs + ((at * 7_919) % (100 * hour)) * 1,
    billedNanos: at % 6 === 0 ? null : at * 1_000,
    costUncertain: at % 9 === 0,
    estimated: at % 8 === 0,
    delivered: {
      promptTokens: at,
      cachedTokens: at % 2 === 0 ? null : 1,
      completionTokens: at * 2,
      reasoningTokens: null,
      audioSeconds: at % 3 === 1 ? 0.125 * at : null,
      characters: at % 3 === 2 ? at : null,
    },
  }),
).map((receipt, at) => ({ ...receipt, startedMs: beganMs + Math.floor((at * 100 * hour) / 700) }));

describe.each(engines)("usage on $name", (engine) => {
  const it = test.skipIf(engine.skipped !== null);

  it("matches the receipts for each query", async () => {
    await using database = await engine.open();
    await add(database, receipts);
    const storage = makeReceiptStorage(database);
    const moment = fc.option(fc.integer({ min: beganMs - 30 * hour, max: beganMs + 130 * hour }), { nil: null });
    const query: fc.Arbitrary<UsageQuery> = fc.record({
      by: fc.uniqueArray(fc.constantFrom(...usageColumns.filter((column) => column !== "group")), { maxLength: 4 }),
      sinceMs: moment,
      untilMs: moment,
      keyId: fc.option(fc.constantFrom("key-1", "nobody"), { nil: null }),
      model: fc.option(fc.constantFrom("Model-A", "ä-model", "\0' or 1=1"), { nil: null }),
      channel: fc.option(fc.constantFrom("channel-0", "channel-1"), { nil: null }),
    });
    await fc.assert(
      fc.asyncProperty(query, async (asked) => expect(await storage.usage(asked)).toEqual([...expected(receipts, asked)])),
      { numRuns: numRuns(30) },
    );
  });

  it("of whole days is still known after the hours were deleted", async () => {
    await using database = await engine.open();
    await add(database, receipts);
    await retain(database, { receiptsMs: 1, hoursMs: 1, wallMs: beganMs + 1_000 * hour });
    const storage = makeReceiptStorage(database);
    expect(await storage.usage({ ...any, by: ["day"] })).toEqual([...expected(receipts, { ...any, by: ["day"] })]);
    const since = { ...any, by: ["key" as const], sinceMs: Date.UTC(2026, 1, 28), untilMs: Date.UTC(2026, 2, 1) };
    expect(await storage.usage(since)).toEqual([...expected(receipts, since)]);
    expect(await storage.usage({ ...any, by: ["hour"] })).toEqual([]);
  });

  it("counts the first contents of streams by hour, also of receipts that are not stored, and keeps them", async () => {
    await using database = await engine.open();
    const timed = receipts.map((receipt, at) => ({
      ...receipt,
      stream: at % 7 !== 0,
      firstContentMs: at % 5 === 0 ? null : (at * at * 3) % 200_000,
    }));
    const parts = [0, 1, 2, 3].map((part) => timed.filter((_, at) => at % 4 === part));
    await Promise.all(parts.slice(1).map(async (part) => add(database, part)));
    await database.transaction(async (inside) => addToSums(inside, [], parts[0]!.map(entryOf)));
    await retain(database, { receiptsMs: 1, hoursMs: 1, wallMs: beganMs + 1_000 * hour });
    const storage = makeReceiptStorage(database);
    for (const [since, until] of [
      [0, null],
      [beganMs + 10 * hour + 1, beganMs + 40 * hour],
      [beganMs + 200 * hour, null],
    ] as const) {
      const buckets = [...firstContentBoundsMs, Infinity].map(() => 0);
      for (const { stream, firstContentMs, startedMs } of timed) {
        const atMs = startedMs - (startedMs % hour);
        const isWithin = atMs >= since - (since % hour) && (until === null || atMs < until);
        if (isWithin && stream && firstContentMs !== null) buckets[firstContentBucket(firstContentMs)]! += 1;
      }
      expect(await storage.firstContents(since, until)).toEqual(buckets);
    }
  });

  it("tells how calls ended, by everything that usage is told by, also of receipts that are not stored", async () => {
    await using database = await engine.open();
    const ended = receipts.map(withOutcome);
    const parts = [0, 1, 2, 3].map((part) => ended.filter((_, at) => at % 4 === part));
    await Promise.all(parts.slice(1).map(async (part) => add(database, part)));
    await database.transaction(async (inside) => addToSums(inside, [], parts[0]!.map(entryOf)));
    const storage = makeReceiptStorage(database);
    const day = Date.UTC(2026, 1, 28);
    const queries: readonly UsageQuery[] = [
      any,
      { ...any, by: ["model"] },
      { ...any, by: ["key", "day"] },
      { ...any, by: ["channel", "operation"], sinceMs: beganMs + 3 * hour + 5, untilMs: beganMs + 70 * hour },
      { ...any, by: ["hour"], keyId: "key-1" },
      { ...any, by: ["day"], groupId: "grp_1", sinceMs: day, untilMs: day + 24 * hour },
      { ...any, by: ["group"], model: "Model-A" },
    ];
    for (const query of queries) expect(await storage.outcomes(query)).toEqual([...expectedOutcomes(ended, query)]);
    const byGroup: UsageQuery = { ...any, by: ["group"] };
    expect(await storage.outcomes({ ...byGroup, groups: ["grp_1"] })).toEqual(
      [...expectedOutcomes(ended, byGroup)].filter(({ group }) => group.group === "grp_1"),
    );
    expect(await storage.outcomesFrom()).toBe(Date.UTC(2026, 1, 27));

    const began = [...firstContentBoundsMs, Infinity].map(() => 0);
    const ofModel = ended.filter(({ model, owners }) => model === "Model-A" && owners.includes("grp_1"));
    for (const { firstContentMs } of ofModel) began[firstContentBucket(firstContentMs!)]! += 1;
    const took = [...firstContentBoundsMs, Infinity].map(() => 0);
    for (const { state, tookMs } of ofModel) if (state === "complete") took[firstContentBucket(tookMs)]! += 1;
    const times = { groupId: "grp_1", model: "Model-A", sinceMs: null, untilMs: null };
    expect(await storage.modelTimes(times)).toEqual({ first: began, took });
    // Of groups by the day, so that a span within a day is that day; of everybody by the hour.
    const within = { sinceMs: day + 5 * hour, untilMs: day + 7 * hour - 1 };
    const tookOf = (fits: (receipt: Receipt) => boolean) => {
      const buckets = took.map(() => 0);
      for (const each of ended.filter(({ model, state }) => model === "Model-A" && state === "complete").filter(fits))
        buckets[firstContentBucket(each.tookMs)]! += 1;
      return buckets;
    };
    expect((await storage.modelTimes({ ...times, ...within })).took).toEqual(
      tookOf(({ owners, startedMs }) => owners.includes("grp_1") && startedMs >= day && startedMs < day + 24 * hour),
    );
    expect((await storage.modelTimes({ ...times, groupId: null, ...within })).took).toEqual(
      tookOf(({ startedMs }) => startedMs >= day + 5 * hour && startedMs < day + 7 * hour),
    );
    expect(await storage.modelTimes({ ...times, model: "unheard of" })).toEqual({ first: began.map(() => 0), took: began.map(() => 0) });

    await retain(database, { receiptsMs: null, hoursMs: 1, wallMs: beganMs + 1_000 * hour });
    expect(await storage.outcomes({ ...any, by: ["model"] })).toEqual([...expectedOutcomes(ended, { ...any, by: ["model"] })]);
    expect(await storage.outcomes({ ...any, by: ["hour"] })).toEqual([]);
    expect(await storage.modelTimes(times)).toEqual({ first: began, took });
    const listed = await storage.list({ ...any, state: null, mark: "rescued", before: null, limit: 200 });
    expect(listed.map(({ id }) => id).toSorted()).toEqual(
      parts
        .slice(1)
        .flatMap((part) => part.filter((receipt) => outcomeOf(receipt).rescued === 1).map(({ id }) => id))
        .toSorted(),
    );
    for (const receipt of listed) expect(receipt).toEqual(ended.find(({ id }) => id === receipt.id)!);
  });

  it("tells what each channel used of its upstream's models over all attempts, by the day", async () => {
    await using database = await engine.open();
    const ended = receipts.map(withOutcome);
    await add(database, ended);
    const storage = makeReceiptStorage(database);
    const day = Date.UTC(2026, 1, 28);
    const attempts = ended.filter(({ startedMs }) => startedMs >= day && startedMs < day + 24 * hour).flatMap((each) => each.attempts);
    const used = await storage.upstreamUse(day + 1, day + 2);
    expect(used.map(({ channel, model }) => [channel, model])).toEqual([
      ["channel-1", "upstream-model-1"],
      ["channel-2", "upstream-model-1"],
    ]);
    for (const row of used) {
      const own = attempts.filter(({ channel }) => channel === row.channel);
      const sum = (figure: (attempt: AttemptReceipt) => number | null) => own.reduce((total, one) => total + (figure(one) ?? 0), 0);
      expect(row).toEqual({
        channel: row.channel,
        model: row.model,
        attempts: own.length,
        answered: own.filter(({ outcome }) => outcome === "answered").length,
        promptTokens: sum(({ promptTokens }) => promptTokens),
        cachedTokens: sum(({ cachedTokens }) => cachedTokens),
        completionTokens: sum(({ completionTokens }) => completionTokens),
        reasoningTokens: sum(({ reasoningTokens }) => reasoningTokens),
        audioSeconds: 0,
        characters: 0,
        nanos: sum(({ nanos }) => nanos),
        unpriced: 0,
        uncertain: sum(({ costUncertain }) => Number(costUncertain)),
        estimated: sum(({ estimated }) => Number(estimated)),
      });
    }
  });

  it("of nothing is one row of zeroes, or no row of a group", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    expect(await storage.usage(any)).toEqual([...expected([], any)]);
    expect(await storage.usage({ ...any, by: ["key"] })).toEqual([]);
  });

  it("is exact when several processes write at once", async () => {
    await using database = await engine.open();
    const parts = [0, 1, 2, 3].map((part) => receipts.filter((_, at) => at % 4 === part));
    await Promise.all(parts.map(async (part) => add(database, part)));
    const storage = makeReceiptStorage(database);
    // Those of each key, and those of everybody, which all of them change.
    for (const by of [
      ["key", "model", "day"],
      ["model", "day"],
      ["channel", "hour"],
    ] as const) {
      const asked: UsageQuery = { ...any, by };
      expect(await storage.usage(asked)).toEqual([...expected(receipts, asked)]);
    }
  });

  it("of everybody is read from a row for each model, channel, operation and day, and counts receipts that are not stored", async () => {
    await using database = await engine.open();
    const stored = receipts.filter((_, at) => at % 3 === 0);
    const thinned = receipts.filter((_, at) => at % 3 !== 0);
    await add(database, stored);
    await database.transaction(async (inside) => addToSums(inside, [], thinned.map(entryOf)));
    for (const by of [[], ["operation"], ["day", "model"], ["hour"]] as const) {
      const asked: UsageQuery = { ...any, by };
      expect(await makeReceiptStorage(database).usage(asked)).toEqual([...expected(receipts, asked)]);
    }
    const [rows] = await database.all<{ count: number }>(sql`select count(*) as count from owner_days where owner_id = ${everybody}`);
    expect(rows?.count).toBe([...expected(receipts, { ...any, by: ["day", "model", "channel", "operation"] })].length);
  });
});
