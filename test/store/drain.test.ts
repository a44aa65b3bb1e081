// Needs: quiet, servers. It mostly waits for the drain to look again.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StorageError } from "../../src/gateway/storage.ts";
import { BudgetTable, releaseHolds, settleHolds } from "../../src/store/tables/budget-table.ts";
import type { Database } from "../../src/store/database.ts";
import { SlotDrain, unknownReceipt, type SlotDrainOptions } from "../../src/store/drain/drain.ts";
import { startDrain, type Drain } from "../../src/store/drain/drain-control.ts";
import { openJournal, type Journal, type JournalOptions } from "../../src/store/journal/journal.ts";
import { segmentFile, segmentsIn } from "../../src/store/journal/folder.ts";
import { frameAt, putFrame } from "../../src/store/journal/frame.ts";
import { openDatabase, storeFile, type OpenOptions } from "../../src/store/open.ts";
import { headLine, lineOf, receiptLine } from "../../src/store/receipts/receipt-line.ts";
import { makeReceiptStorage } from "../../src/store/receipts/receipt-table.ts";
import { sql } from "../../src/store/sql.ts";
import type { ReceiptOpening, Receipt } from "../../src/usage/receipt.ts";
import { disposable, engines, freshDataDir, freshPostgresUrl, postgresServer } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { sampleOpening, sampleReceipt } from "../support/journal-receipts.ts";
import { numRuns } from "../support/properties.ts";
import { slowed } from "../support/slowed.ts";

// A real server is started and stopped; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const ends: (() => Promise<unknown> | void)[] = [];
afterAll(async () => {
  for (const end of ends.toReversed()) await end();
});

function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-drain-"));
  ends.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function journalIn(folder: string, options: Partial<JournalOptions> = {}): Journal {
  const journal = openJournal({ folder, holder: "holder-1", onError: () => {}, ...options });
  ends.push(async () => journal.stop());
  return journal;
}

function needsOf(database: Database, reports: string[] = []): SlotDrainOptions {
  return { database, settle: settleHolds, release: releaseHolds, report: (message) => reports.push(message), receiptsMax: 3 };
}

async function drainAll(drain: SlotDrain): Promise<void> {
  while (await drain.step());
}

async function ofKey(database: Database, keyId: string): Promise<ReadonlyMap<string, Receipt>> {
  const storage = makeReceiptStorage(database);
  const found = new Map<string, Receipt>();
  for (let before: string | null = null; ;) {
    const page = await storage.list({ keyId, model: null, channel: null, state: null, sinceMs: null, untilMs: null, before, limit: 200 });
    for (const receipt of page) found.set(receipt.id, receipt);
    if (page.length === 0) return found;
    before = page.at(-1)!.id;
  }
}

/** The sums of a key by hours and by days, and what its receipts say they are. */
async function sumsOf(database: Database, keyId: string) {
  const sums = async (table: typeof hours) =>
    (
      await database.all<{ calls: number; nanos: number; tokens: number; failed: number }>(
        sql`select cast(coalesce(sum(calls), 0) as bigint) as calls, cast(coalesce(sum(nanos), 0) as bigint) as nanos,
          cast(coalesce(sum(prompt_tokens), 0) as bigint) as tokens, cast(coalesce(sum(failed), 0) as bigint) as failed
          from ${table} where key_id = ${keyId}`,
      )
    )[0]!;
  const receipts = [...(await ofKey(database, keyId)).values()];
  const ofReceipts = {
    calls: receipts.length,
    nanos: receipts.reduce((sum, { billedNanos }) => sum + (billedNanos ?? 0), 0),
    tokens: receipts.reduce((sum, { delivered }) => sum + (delivered.promptTokens ?? 0), 0),
    failed: receipts.filter(({ state }) => state !== "complete").length,
  };
  return { hours: { ...(await sums(hours)) }, days: { ...(await sums(days)) }, ofReceipts };
}

const hours = sql`usage_hours`;
const days = sql`usage_days`;

/** What the files of a slot say, up to the first frame of each that is not whole. */
function survivors(slot: string): { readonly openings: readonly ReceiptOpening[]; readonly receipts: readonly Receipt[] } {
  const openings: ReceiptOpening[] = [];
  const receipts: Receipt[] = [];
  for (const segment of segmentsIn(slot)) {
    const bytes = readFileSync(segmentFile(slot, segment));
    for (let at = 0, frame = frameAt(bytes, 0); frame.kind === "frame"; at = frame.to, frame = frameAt(bytes, at)) {
      const line = lineOf(frame.text);
      if (line?.kind === "opening") openings.push(line.opening);
      if (line?.kind === "receipt") receipts.push(line.receipt);
    }
  }
  return { openings, receipts };
}

type Act =
  | { readonly act: "open" | "close" | "forget" }
  | { readonly act: "drain"; readonly steps: number }
  | { readonly act: "die"; readonly cut: number }
  | { readonly act: "trouble"; readonly after: number; readonly committed: boolean };

const acts: fc.Arbitrary<readonly Act[]> = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom<Act>({ act: "open" }, { act: "close" }, { act: "close" }) },
    { weight: 1, arbitrary: fc.constant<Act>({ act: "forget" }) },
    { weight: 2, arbitrary: fc.record({ act: fc.constant("drain" as const), steps: fc.integer({ min: 1, max: 8 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({ act: fc.constant("die" as const), cut: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ act: fc.constant("trouble" as const), after: fc.integer({ min: 1, max: 12 }), committed: fc.boolean() }),
    },
  ),
  { minLength: 5, maxLength: 50 },
);

/** A database whose n-th statement from now fails, or whose next commit is done but not heard of. */
class Moody implements Database {
  readonly engine = "sqlite";
  private left = Infinity;
  private deaf = false;

  constructor(private readonly real: Database) {}

  spoil(after: number, committed: boolean): void {
    if (committed) this.deaf = true;
    else this.left = after;
  }

  calm(): void {
    this.left = Infinity;
    this.deaf = false;
  }

  all<Row extends object>(query: Parameters<Database["all"]>[0]): Promise<Row[]> {
    this.count();
    return this.real.all<Row>(query);
  }

  run(query: Parameters<Database["run"]>[0]): Promise<number> {
    this.count();
    return this.real.run(query);
  }

  async transaction<T>(work: (database: Database) => Promise<T>): Promise<T> {
    const result = await this.real.transaction(async (inside) => {
      const counted: Database = {
        engine: "sqlite",
        all: async (query) => (this.count(), inside.all(query)),
        run: async (query) => (this.count(), inside.run(query)),
        transaction: async (more) => inside.transaction(more),
        close: async () => inside.close(),
      };
      return work(counted);
    });
    if (this.deaf) {
      this.deaf = false;
      throw new StorageError("unavailable", "the answer was lost");
    }
    return result;
  }

  close(): Promise<void> {
    return this.real.close();
  }

  private count(): void {
    this.left -= 1;
    if (this.left > 0) return;
    this.left = Infinity;
    throw new StorageError("unavailable", "it is away");
  }
}

test("receipts are in the store exactly once however the journal is written, drained and truncated, and the sums match the rows", async () => {
  const real = await openDatabase({ store: "sqlite", dataDir: freshDataDir() });
  ends.push(async () => real.close());
  const database = new Moody(real);
  let run = 0;
  let nameless = 0;
  await fc.assert(
    fc.asyncProperty(acts, async (sequence) => {
      run += 1;
      const keyId = `key-${run}`;
      const folder = freshFolder();
      const expected = new Map<string, Receipt>();
      const reports: string[] = [];
      const needs = needsOf(database, reports);
      let journal = journalIn(folder, { segmentBytes: 1_500 });
      let drain = new SlotDrain(needs, journal.slotFolder, journal.firstSegment);
      let inFlight: ReceiptOpening[] = [];
      const unended = new Map<string, ReceiptOpening>();
      const tolerant = async (work: () => Promise<unknown>): Promise<void> => {
        try {
          await work();
        } catch (error) {
          if (!(error instanceof StorageError)) throw error;
        }
      };
      for (const step of sequence) {
        switch (step.act) {
          case "open": {
            const opening = sampleOpening({ keyId, nanos: run });
            inFlight.push(opening);
            unended.set(opening.id, opening);
            await journal.open(opening);
            break;
          }
          case "close": {
            const receipt = sampleReceipt({ keyId, ...(inFlight.length > 0 ? { id: inFlight.shift()!.id } : {}) });
            expected.set(receipt.id, receipt);
            unended.delete(receipt.id);
            await journal.close(receipt);
            break;
          }
          case "forget":
            inFlight.shift();
            break;
          case "drain":
            for (let steps = 0; steps < step.steps; steps += 1) await tolerant(async () => drain.step());
            break;
          case "trouble":
            database.spoil(step.after, step.committed);
            break;
          case "die": {
            await journal.stop();
            const last = segmentFile(journal.slotFolder, segmentsIn(journal.slotFolder).at(-1)!);
            truncateSync(last, Math.round(statSync(last).size * step.cut));
            if (frameAt(readFileSync(last), 0).kind !== "frame") nameless += 1;
            const stored = await ofKey(real, keyId);
            const left = survivors(journal.slotFolder);
            const kept = new Set([...stored.keys(), ...left.receipts.map(({ id }) => id)]);
            for (const id of expected.keys()) if (!kept.has(id)) expected.delete(id);
            for (const opening of left.openings) if (!kept.has(opening.id)) expected.set(opening.id, unknownReceipt(opening));
            if (step.cut === 1) for (const id of unended.keys()) expect(expected.has(id)).toBeTrue();
            unended.clear();
            inFlight = [];
            journal = journalIn(folder, { segmentBytes: 1_500 });
            drain.close();
            drain = new SlotDrain(needs, journal.slotFolder, journal.firstSegment);
            break;
          }
        }
      }
      database.calm();
      // As far as the living process goes, nothing of it is unknown.
      await drainAll(drain);
      expect(await ofKey(real, keyId)).toEqual(expected);
      await journal.stop();
      drain.close();
      await drainAll(new SlotDrain(needs, journal.slotFolder, null));
      for (const opening of unended.values()) expected.set(opening.id, unknownReceipt(opening));
      expect(await ofKey(real, keyId)).toEqual(expected);
      const sums = await sumsOf(real, keyId);
      expect(sums.hours).toEqual(sums.ofReceipts);
      expect(sums.days).toEqual(sums.ofReceipts);
      expect(segmentsIn(journal.slotFolder)).toEqual([]);
      // A segment that was cut before its own name leaves its place behind, and nothing else does.
      expect((await real.all(sql`select name from journals`)).length).toBeLessThanOrEqual(nameless);
      expect(reports.filter((report) => !report.includes("no whole record"))).toEqual([]);
    }),
    { numRuns: numRuns(50) },
  );
});

test("receipts that are not stored are counted exactly once, however the journal is drained", async () => {
  const real = await openDatabase({ store: "sqlite", dataDir: freshDataDir() });
  ends.push(async () => real.close());
  const database = new Moody(real);
  let run = 0;
  let stored = 0;
  let closed = 0;
  await fc.assert(
    fc.asyncProperty(acts, async (sequence) => {
      run += 1;
      const keyId = `key-${run}`;
      const folder = freshFolder();
      const needs = { ...needsOf(database), keptShare: 0.3 };
      let journal = journalIn(folder, { segmentBytes: 1_500 });
      let drain = new SlotDrain(needs, journal.slotFolder, journal.firstSegment);
      const calls = { calls: 0, nanos: 0, tokens: 0, failed: 0 };
      let refused = 0;
      const failures: string[] = [];
      for (const step of sequence) {
        if (step.act === "close" || step.act === "open") {
          const failed = step.act === "open" && calls.calls % 3 === 0;
          const isRefused = calls.calls % 5 === 0;
          const finish = isRefused ? "content_filter" : null;
          const receipt = sampleReceipt({ keyId, finish, ...(failed ? { state: "failed" } : {}) });
          if (failed || isRefused) failures.push(receipt.id);
          refused += isRefused ? 1 : 0;
          await journal.close(receipt);
          calls.calls += 1;
          calls.nanos += receipt.billedNanos ?? 0;
          calls.tokens += receipt.delivered.promptTokens ?? 0;
          calls.failed += failed ? 1 : 0;
        } else if (step.act === "trouble") database.spoil(step.after, step.committed);
        else if (step.act === "drain") {
          for (let steps = 0; steps < step.steps; steps += 1) {
            await drain.step().catch((error: unknown) => {
              if (!(error instanceof StorageError)) throw error;
            });
          }
        } else if (step.act === "die") {
          await journal.stop();
          drain.close();
          journal = journalIn(folder, { segmentBytes: 1_500 });
          drain = new SlotDrain(needs, journal.slotFolder, journal.firstSegment);
        }
      }
      database.calm();
      await drainAll(drain);
      await journal.stop();
      drain.close();
      await drainAll(new SlotDrain(needs, journal.slotFolder, null));
      const sums = await sumsOf(real, keyId);
      expect(sums.hours).toEqual(calls);
      expect(sums.days).toEqual(calls);
      const [outcomes] = await real.all(sql`select coalesce(sum(refused), 0) as refused from outcome_days where owner_id = ${keyId}`);
      expect(outcomes).toEqual({ refused });
      const found = await ofKey(real, keyId);
      for (const id of failures) expect(found.has(id)).toBeTrue();
      stored += found.size;
      closed += calls.calls;
      expect(await real.all(sql`select name from journals`)).toEqual([]);
      expect(segmentsIn(journal.slotFolder)).toEqual([]);
    }),
    { numRuns: numRuns(20) },
  );
  expect(stored).toBeLessThan(closed);
});

describe.each(engines)("receipts that are thinned on $name", (engine) => {
  test.skipIf(engine.skipped !== null)("keep the asked share of plain successes and all others, and exact sums", async () => {
    await using database = await engine.open();
    const journal = journalIn(freshFolder());
    const kinds = [{}, { state: "failed" as const }, { warning: "truncated_audio" }, { costUncertain: true }, { attempts: [] }];
    for (const kind of kinds) {
      for (let at = 0; at < 400; at += 1) void journal.close(sampleReceipt({ ...kind, model: JSON.stringify(kind) }));
    }
    await journal.flush();
    const needs = { ...needsOf(database), receiptsMax: 500, keptShare: 0.25 };
    const drain = new SlotDrain(needs, journal.slotFolder, journal.firstSegment);
    await drainAll(drain);
    drain.close();
    const storage = makeReceiptStorage(database);
    const usage = await storage.usage({ by: ["model"], sinceMs: null, untilMs: null, keyId: null, model: null, channel: null });
    expect(usage.map(({ calls }) => calls)).toEqual(kinds.map(() => 400));
    const rows = await database.all<{ model: string; n: number }>(sql`select model, count(*) as n from receipts group by model`);
    const counts = new Map(rows.map(({ model, n }) => [model, n]));
    for (const kind of kinds.slice(1)) expect(counts.get(JSON.stringify(kind))).toBe(400);
    // A quarter; six standard deviations either way.
    expect(counts.get("{}")).toBeGreaterThan(48);
    expect(counts.get("{}")).toBeLessThan(152);
  });
});

describe.each(engines)("receipts that are drained again on $name", (engine) => {
  test.skipIf(engine.skipped !== null)("by the hundred, some of them new, are counted once", async () => {
    await using database = await engine.open();
    const journal = journalIn(freshFolder());
    const keep = async (from: number, to: number): Promise<void> => {
      for (let at = from; at < to; at += 1) void journal.close(sampleReceipt({ keyId: `key-${at % 60}`, billedNanos: at }));
      await journal.flush();
    };
    const drained = async (): Promise<void> => {
      const drain = new SlotDrain({ ...needsOf(database), receiptsMax: 1_000 }, journal.slotFolder, journal.firstSegment);
      await drainAll(drain);
      drain.close();
    };
    await keep(0, 130);
    await drained();
    await database.run(sql`delete from journals`);
    await keep(130, 200);
    await drained();
    for (const table of [hours, days]) {
      const [sums] = await database.all(
        sql`select cast(sum(calls) as bigint) as calls, cast(sum(nanos) as bigint) as nanos, count(*) as rows from ${table}`,
      );
      expect({ ...sums }).toEqual({ calls: 200, nanos: (199 * 200) / 2, rows: 60 });
    }
    expect((await database.all<{ n: number }>(sql`select count(*) as n from receipts`))[0]?.n).toBe(200);
  });
});

test.each([0, 5, 9])(
  "a store that goes back to when it had %d of 9 receipts, as a standby that was behind, gets the others again",
  async (had) => {
    let current = await engines[0]!.open();
    const folder = freshDataDir();
    const switched: Database = {
      engine: "sqlite",
      all: (query) => current.all(query),
      run: (query) => current.run(query),
      transaction: (work) => current.transaction(work),
      close: () => current.close(),
    };
    const journal = journalIn(freshFolder());
    const drain = new SlotDrain(needsOf(switched), journal.slotFolder, journal.firstSegment);
    const receipts = Array.from({ length: 12 }, () => sampleReceipt());
    const drained = async (some: readonly Receipt[]): Promise<void> => {
      await Promise.all(some.map((receipt) => journal.close(receipt)));
      await drainAll(drain);
    };
    await drained(receipts.slice(0, had));
    await current.run(sql`vacuum into ${storeFile(folder)}`);
    await drained(receipts.slice(had, 9));
    current = disposable(await openDatabase({ store: "sqlite", dataDir: folder }));
    await drained(receipts.slice(9));
    expect([...(await ofKey(current, "key-1")).keys()].toSorted()).toEqual(receipts.map(({ id }) => id).toSorted());
    const { hours: byHours, days: byDays, ofReceipts } = await sumsOf(current, "key-1");
    expect([byHours, byDays]).toEqual([ofReceipts, ofReceipts]);
    expect(drain.receipts).toBe(12);
    drain.close();
  },
);

test("a segment is kept until the next one lists the running calls", async () => {
  await using database = await engines[0]!.open();
  const journal = journalIn(freshFolder(), { segmentBytes: 1 });
  const opening = sampleOpening();
  await journal.open(opening);
  const drain = new SlotDrain(needsOf(database), journal.slotFolder, journal.firstSegment);
  // As if the process had died between making the next file and writing to it.
  const next = segmentFile(journal.slotFolder, 2);
  writeFileSync(next, "");
  await drainAll(drain);
  expect(segmentsIn(journal.slotFolder)).toEqual([1, 2]);
  drain.close();
  await journal.stop();
  await drainAll(new SlotDrain(needsOf(database), journal.slotFolder, null));
  expect(await ofKey(database, "key-1")).toEqual(new Map([[opening.id, unknownReceipt(opening)]]));
  expect(segmentsIn(journal.slotFolder)).toEqual([]);
});

test("damage in a journal is reported and loses only the damaged records; foreign files are left alone", async () => {
  await using database = await engines[0]!.open();
  const journal = journalIn(freshFolder());
  const receipts = [sampleReceipt(), sampleReceipt(), sampleReceipt()] as const;
  await journal.close(receipts[0]);
  const from = journal.written().position;
  for (const receipt of receipts.slice(1)) await journal.close(receipt);
  await journal.stop();
  const file = segmentFile(journal.slotFolder, 1);
  const bytes = readFileSync(file);
  bytes.fill(0, from + 10, from + 30);
  writeFileSync(file, bytes);
  writeFileSync(segmentFile(journal.slotFolder, 2), crypto.getRandomValues(new Uint8Array(5_000)));
  writeFileSync(join(journal.slotFolder, "notes.txt"), "mine");
  mkdirSync(join(journal.slotFolder, "folder"));
  const reports: string[] = [];
  await drainAll(new SlotDrain(needsOf(database, reports), journal.slotFolder, null));
  expect([...(await ofKey(database, "key-1")).keys()].sort()).toEqual([receipts[0].id, receipts[2].id].sort());
  expect(reports.length).toBe(2);
  expect(reports[0]).toContain("are damaged and were left out");
  expect(readdirSync(journal.slotFolder).sort()).toEqual(["folder", "lock", "notes.txt"]);
});

test("a segment with records of a newer version is kept for that version, which may drain it as often as it likes", async () => {
  const [folder, reports] = [freshFolder(), [] as string[]];
  const slot = join(folder, "1");
  mkdirSync(slot);
  const file = segmentFile(slot, 1);
  const known = sampleReceipt({ keyId: "key-newer" });
  const later = receiptLine(sampleReceipt({ keyId: "key-newer" })).replace('"chat"', '"telepathy"');
  const head = headLine({ segment: "segment-newer", runId: "run", holder: "holder", receipts: 0, inFlight: 0 });
  const bytes = Buffer.alloc(20_000);
  const end = [head, receiptLine(known), later, "[7,8]"].reduce((at, line) => putFrame(bytes, at, line), 0);
  writeFileSync(file, bytes.subarray(0, end));
  await using database = await engines[0]!.open();
  for (let time = 1; time <= 2; time += 1) {
    await drainAll(new SlotDrain(needsOf(database, reports), slot, null));
    const [kept, ...more] = readdirSync(slot);
    expect([kept, more]).toEqual([expect.stringMatching(/^0001\.unread-/), []]);
    expect(readFileSync(join(slot, kept!)).equals(bytes.subarray(0, end))).toBe(true);
    expect(reports.at(-1)).toContain("a newer version wrote some of it");
    expect([...(await ofKey(database, "key-newer")).keys()]).toEqual([known.id]);
    renameSync(join(slot, kept!), file);
  }
});

test("a receipt that the store accepts only in part is put aside, and does not block the others", async () => {
  await using database = await engines[0]!.open();
  await database.run(sql`create trigger no_such_model before insert on attempts when new.channel = 'poison'
    begin select raise(abort, 'no such channel'); end`);
  const journal = journalIn(freshFolder());
  const poison = sampleReceipt({ attempts: [{ ...sampleReceipt().attempts[0]!, channel: "poison" }] });
  const receipts = [sampleReceipt(), poison, sampleReceipt(), sampleReceipt()];
  for (const receipt of receipts) await journal.close(receipt);
  await journal.stop();
  const reports: string[] = [];
  await drainAll(new SlotDrain(needsOf(database, reports), journal.slotFolder, null));
  const stored = await ofKey(database, "key-1");
  expect([...stored.keys()].sort()).toEqual(receipts.map(({ id }) => id).sort());
  expect(stored.get(poison.id)).toMatchObject({ attempts: [], billedNanos: poison.billedNanos });
  expect(reports).toEqual([expect.stringContaining("refused.jsonl") as string]);
  const aside = readFileSync(join(journal.slotFolder, "refused.jsonl"), "utf8").trim().split("\n").map(lineOf);
  expect(aside).toEqual([{ kind: "receipt", receipt: poison }]);
});

describe.each(engines)("the thread on $name", (engine) => {
  const it = test.skipIf(engine.skipped !== null);

  async function store(): Promise<OpenOptions> {
    const dataDir = freshDataDir();
    return { store: engine.name === "sqlite" ? "sqlite" : await freshPostgresUrl(), dataDir };
  }

  function draining(journal: Journal, database: OpenOptions, more: Partial<Parameters<typeof startDrain>[0]> = {}): Drain {
    const drain = startDrain({ journal, database, onError: () => {}, onReport: () => {}, pollMs: 20, ...more });
    ends.push(async () => drain.stop());
    return drain;
  }

  it("starts no thread before there is something to move, and then moves the first receipt too", async () => {
    const options = await store();
    const journal = journalIn(join(options.dataDir, "journal"));
    const drain = draining(journal, options, { adoptMs: 20 });
    await drain.idle();
    expect(drain.running).toBe(false);
    await journal.open(sampleOpening({ id: "first" }));
    expect(drain.running).toBe(false);
    await journal.close(sampleReceipt({ id: "first" }));
    await drain.idle();
    expect(drain.running).toBe(true);
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    expect([...(await ofKey(database, "key-1")).keys()]).toEqual(["first"]);

    const later = await store();
    const left = journalIn(join(later.dataDir, "journal"));
    await left.close(sampleReceipt({ id: "left" }));
    await left.stop();
    expect(draining(journalIn(left.folder), later).running).toBe(true);
  });

  it("moves everything written so far into the store, and deducts it from the holds of the process", async () => {
    const options = await store();
    const journal = journalIn(join(options.dataDir, "journal"), { segmentBytes: 20_000 });
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    const budgets = new BudgetTable(database, { wallMs: () => Date.now() });
    const startedMs = Date.now();
    const ask = { budget: "key-1", ownerId: "key-1", models: null, limitNanos: 10_000_000, sinceMs: 0, holder: "holder-1" };
    await budgets.hold({ ...ask, need: 1, wish: 1_000_000, ttlMs: 60_000 });
    const drain = draining(journal, options);
    const receipts = Array.from({ length: 300 }, () => sampleReceipt({ startedMs }));
    await Promise.all(receipts.slice(0, 200).map(async (receipt) => journal.close(receipt)));
    for (const receipt of receipts.slice(200)) await journal.close(receipt);
    await drain.idle();
    expect((await ofKey(database, "key-1")).size).toBe(300);
    expect(drain.lag()).toEqual({ bytes: 0, receipts: 0, oldestMs: 0, degraded: false });
    const left = await database.all<{ nanos: number }>(sql`select nanos from budget_holds where holder = 'holder-1'`);
    expect(left[0]?.nanos).toBe(1_000_000 - 300 * 1_000);
    expect(segmentsIn(journal.slotFolder).length).toBe(1);
    await drain.stop();
    await journal.close(sampleReceipt());
    expect((await ofKey(database, "key-1")).size).toBe(300);
  });

  it("releases the holds of a dead process once all that it spent is counted", async () => {
    const options = await store();
    const folder = join(options.dataDir, "journal");
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    const budgets = new BudgetTable(database, { wallMs: () => Date.now() });
    const ask = { budget: "key-1", ownerId: "key-1", models: null, exceptModels: [], limitNanos: 1_000_000, sinceMs: 0, ttlMs: 600_000 };
    await budgets.hold({ ...ask, holder: "holder-1", need: 1, wish: 1_000_000 });
    const dead = journalIn(folder);
    await dead.close(sampleReceipt({ startedMs: Date.now() }));
    await dead.stop();
    expect(await budgets.hold({ ...ask, holder: "holder-2", need: 1, wish: 1_000_000 })).toMatchObject({ ok: false });
    const journal = journalIn(folder, { holder: "holder-2" });
    const drain = draining(journal, options);
    await drain.idle();
    expect(await budgets.hold({ ...ask, holder: "holder-2", need: 1, wish: 1_000_000 })).toMatchObject({ ok: true, nanos: 999_000 });
  });

  it("releases on request what an ended process held, also where it died before its first receipt or another process has its journal", async () => {
    const options = await store();
    const folder = join(options.dataDir, "journal");
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    const budgets = new BudgetTable(database, { wallMs: () => Date.now() });
    const ask = {
      ownerId: "key-1",
      models: null,
      exceptModels: [],
      limitNanos: 1_000_000,
      sinceMs: 0,
      ttlMs: 600_000,
      need: 1,
      wish: 1_000_000,
    };
    const heldBy = async (holder: string): Promise<number> =>
      (await database.all(sql`select 1 as held from budget_holds where holder = ${holder}`)).length;
    const journal = journalIn(folder, { holder: "holder-1" });
    // It looks by itself once an hour.
    const drain = draining(journal, options, { adoptMs: 3_600_000 });
    await budgets.hold({ ...ask, budget: "unwritten", holder: "unwritten" });
    await drain.release("unwritten");
    expect(await heldBy("unwritten")).toBe(0);

    const ended = journalIn(folder, { holder: "ended" });
    await budgets.hold({ ...ask, budget: "key-1", holder: "ended" });
    await ended.close(sampleReceipt({ id: "of-ended", startedMs: Date.now() }));
    await ended.stop();
    // Its slot belongs to the one that took its place, which drains it before this one can.
    const successor = journalIn(folder, { holder: "successor" });
    expect(successor.slotFolder).toBe(ended.slotFolder);
    let released = false;
    const release = drain.release("ended").then(() => (released = true));
    await drain.release("unwritten");
    expect([released, await heldBy("ended")]).toEqual([false, 1]);
    const other = draining(successor, options, { adoptMs: 3_600_000 });
    await release;
    expect(await heldBy("ended")).toBe(0);
    expect([...(await ofKey(database, "key-1")).keys()]).toEqual(["of-ended"]);
    await Promise.all([drain.stop(), other.stop()]);
    await expect(drain.release("anybody")).rejects.toThrow(/no longer written/);
  });

  it("resumes by itself when receipts arrive after a rest, and reports when it is done", async () => {
    const options = await store();
    const journal = journalIn(join(options.dataDir, "journal"), { segmentBytes: 2_000 });
    const drain = draining(journal, options);
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    for (let round = 1; round <= 12; round += 1) {
      await journal.close(sampleReceipt());
      await eventually("it is carried on", async () => (await ofKey(database, "key-1")).size === round);
      await eventually("it is said", () => drain.lag().receipts === 0 && drain.lag().bytes === 0);
    }
  });

  const itCounts = engine.name === "sqlite" ? it : () => {};
  itCounts("waits longer for more where there is much, and carries it on in few transactions", async () => {
    const options = await store();
    const journal = journalIn(join(options.dataDir, "journal"));
    const drain = draining(journal, options, { pollMs: 20 });
    // The thread starts with the first receipt, and that is not what is counted.
    await journal.close(sampleReceipt());
    await drain.idle();
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    // It changes with every transaction of somebody else.
    const versions = new Set<number>();
    const untilMs = performance.now() + 1_000;
    let receipts = 1;
    while (performance.now() < untilMs) {
      for (let call = 0; call < 20; call += 1, receipts += 1) void journal.close(sampleReceipt());
      versions.add((await database.all<{ data_version: number }>(sql`pragma data_version`))[0]!.data_version);
      await Bun.sleep(2);
    }
    await drain.idle();
    expect((await database.all<{ n: number }>(sql`select count(*) as n from receipts`))[0]?.n).toBe(receipts);
    // Every 20 ms it would be 50.
    expect(versions.size).toBeGreaterThan(2);
    expect(versions.size).toBeLessThan(15);
  });

  it("adopts the journal of a dead process from another slot, once", async () => {
    const options = await store();
    const folder = join(options.dataDir, "journal");
    const dead = [journalIn(folder), journalIn(folder), journalIn(folder)];
    const living = journalIn(folder);
    const opening = sampleOpening();
    for (const journal of dead) await journal.close(sampleReceipt());
    await dead[1]!.open(opening);
    await living.open(sampleOpening());
    for (const journal of dead) await journal.stop();
    const drain = draining(living, options, { adoptMs: 50 });
    const database = await openDatabase(options);
    ends.push(async () => database.close());
    await eventually("all are drained", () => dead.every(({ slotFolder }) => segmentsIn(slotFolder).length === 0));
    await drain.idle();
    const stored = await ofKey(database, "key-1");
    expect(stored.size).toBe(4);
    expect(stored.get(opening.id)).toEqual(unknownReceipt(opening));
    // And the slots are free again.
    const again = journalIn(folder);
    expect(again.slot).toBe(1);
  });

  const itIsServer = engine.name === "postgres" ? it : () => {};
  itIsServer("says when the store is away, keeps everything, and goes on when it is back", async () => {
    const options = { ...(await store()), statementMs: 500 };
    const journal = journalIn(join(options.dataDir, "journal"));
    const errors: (string | null)[] = [];
    const drain = draining(journal, options, { onError: (message) => errors.push(message) });
    await journal.close(sampleReceipt());
    await drain.idle();
    const server = await postgresServer();
    await server.kill9();
    for (let call = 0; call < 50; call += 1) await journal.close(sampleReceipt());
    await eventually("it is said", () => drain.lag().degraded, 10_000);
    expect(drain.lag().receipts).toBe(50);
    expect(drain.lag().oldestMs).toBeGreaterThan(0);
    expect(drain.lag().bytes).toBeGreaterThan(50 * 200);
    await server.start();
    await drain.idle();
    expect(errors).toEqual([expect.stringContaining("PostgreSQL") as string, null]);
    const database = await openDatabase(options);
    expect((await ofKey(database, "key-1")).size).toBe(51);
    await database.close();
  });

  it("never blocks the event loop", async () => {
    const options = await store();
    const journal = journalIn(join(options.dataDir, "journal"));
    const drain = draining(journal, options);
    await drain.idle();
    const longest: number[] = [];
    for (let turn = 0; turn < 20; turn += 1) {
      for (let call = 0; call < 100; call += 1) void journal.close(sampleReceipt());
      const beganMs = performance.now();
      await new Promise((resolve) => void setImmediate(resolve));
      longest.push(performance.now() - beganMs);
    }
    await drain.idle();
    // Writing two thousand receipts to a store takes far longer than this.
    expect(longest.sort((one, other) => one - other)[10]!).toBeLessThan(slowed(10));
  });
});
