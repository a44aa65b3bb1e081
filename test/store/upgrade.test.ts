// Needs: long, servers. Each store is upgraded while a process of its version goes on.
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { restoreStore } from "../../src/store/backup/restore.ts";
import type { Database } from "../../src/store/database.ts";
import { segmentFile } from "../../src/store/journal/folder.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { storeFile } from "../../src/store/open.ts";
import { everybody } from "../../src/keys/key.ts";
import { joinSql, nameSql, sql, Sql } from "../../src/store/sql.ts";
import { startChaos } from "../support/chaos.ts";
import { chat } from "../support/chat.ts";
import { engines, freshDataDir } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { startMigrating } from "../support/migrating.ts";
import { OldProcess } from "../support/stores/old-process.ts";
import { factsOf } from "../support/stores/sample-facts.ts";
import {
  killedHolder,
  killedOpening,
  killedReceipts,
  roundMark,
  runningReceipts,
  segmentOf,
  storedReceipts,
} from "../support/stores/sample-receipts.ts";
import {
  budgetNanos,
  budgetRequest,
  by,
  drainSegment,
  idsOf,
  openSample,
  sampleMasterKey,
  sampleTokens,
  type OpenedSample,
} from "../support/stores/sample-store.ts";
import {
  firstBackup,
  fixtureVersions,
  loadFixture,
  openStoreAt,
  storeFixture,
  type StoreLocation,
} from "../support/stores/store-fixture.ts";

// Servers and processes are started; how long that takes on a busy machine is not judged.
setDefaultTimeout(120_000);

const present = migrations.length;
const earlier = fixtureVersions.filter((version) => version < present);

const opened: Database[] = [];
// After each test, because a server has a hundred connections and there are many versions.
afterEach(async () => {
  for (const database of opened.splice(0)) await database.close();
});

/**
 * The store in the hands of the present version, at the time of the sample. Only beside another process it is opened in threads, each of
 * which takes longer to begin than a migration: on one thread, two connections to one SQLite file would wait for each other for ever.
 */
async function openPresent(location: StoreLocation, threaded = false): Promise<OpenedSample> {
  const database = await openStoreAt(location, threaded);
  opened.push(database);
  // Other ids than the sample has.
  return openSample(database, location.dataDir, idsOf("6"));
}

test("every version of the schema has a store in test/fixtures/stores (if not: sh bin/bun scripts/store-fixture.ts)", () => {
  expect(fixtureVersions).toEqual(migrations.map(({ number }) => number));
});

test("no migration was changed since a store was made with it", () => {
  for (const engine of ["sqlite", "postgres"] as const) {
    for (const version of fixtureVersions) {
      const stored = storeFixture(version, engine).dump.match(/^(?:create|alter|drop) .*(?=;$)/gm) ?? [];
      const statements = migrations.slice(0, version).flatMap((migration) => migration.statements);
      const texts = statements.map((statement) => textOf(statement instanceof Sql ? statement : statement[engine]));
      expect(stored.filter((text) => !text.includes("table if not exists migrations"))).toEqual(
        texts.filter((text) => isSchema.test(text)),
      );
    }
  }
});

const isSchema = /^(?:create|alter|drop) /;

function textOf({ texts }: Sql): string {
  return texts
    .join("?")
    .replaceAll(/\s*\n\s*/g, " ")
    .trim();
}

/** Every receipt is in the sums of its hour and of its day: in those of its key, and in those of everybody. */
async function expectSumsToMatch(database: Database): Promise<void> {
  const figures = sql`cast(sum(nanos) as bigint) as nanos, cast(sum(calls) as bigint) as calls`;
  const [receipts] = await database.all<object>(
    sql`select cast(sum(coalesce(billed_nanos, 0)) as bigint) as nanos, count(*) as calls from receipts`,
  );
  expect(await database.all<object>(sql`select ${figures} from usage_hours`)).toEqual([receipts!]);
  expect(await database.all<object>(sql`select ${figures} from usage_days`)).toEqual([receipts!]);
  for (const length of ["hours", "days"]) {
    const columns = sql`at_ms, model, channel, operation`;
    const sums = sql`${joinSql(
      summedFigures.map((name) => sql`cast(sum(${nameSql(name)}) as bigint) as ${nameSql(name)}`),
      sql`, `,
    )}`;
    const summedBy = sql`group by ${columns} order by ${columns}`;
    const everybodys = await database.all<object>(
      sql`select ${columns}, ${sums} from ${nameSql(`owner_${length}`)} where owner_id = ${everybody} ${summedBy}`,
    );
    expect(everybodys).toEqual(await database.all<object>(sql`select ${columns}, ${sums} from ${nameSql(`usage_${length}`)} ${summedBy}`));
  }
}

const summedFigures = [
  ...["calls", "failed", "unpriced", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "audio_ms", "characters"],
  ...["nanos", "uncertain", "estimated"],
];

const anyReceipt = { model: null, channel: null, state: null, sinceMs: null, untilMs: null, before: null, limit: 200 };

async function idsOfKey({ storage }: OpenedSample, keyId: string): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let before: string | null = null; ;) {
    const page = await storage.receipts.list({ ...anyReceipt, keyId, before });
    if (page.length === 0) return ids.toSorted();
    ids.push(...page.map(({ id }) => id));
    before = page.at(-1)!.id;
  }
}

for (const { name: engine, skipped } of engines) {
  describe.skipIf(skipped !== null)(`${engine}${skipped === null ? "" : ` (skipped: ${skipped})`}`, () => {
    test.each(fixtureVersions)("a store of version %i keeps everything, and takes what comes next", async (version) => {
      const fixture = storeFixture(version, engine);
      const location = await loadFixture(fixture);
      const sample = await openPresent(location);
      const { database, storage } = sample;
      expect(await factsOf(sample)).toMatchObject(fixture.facts);
      const held = await database.all<object>(sql`select holder from budget_holds where holder = ${killedHolder}`);
      expect(held).toEqual([{ holder: killedHolder }]);
      // The journal of a process that was killed: its receipts, and the call that it was at.
      await drainSegment(database, join(location.dataDir, "journal"), fixture.journal, "dead");
      expect(await storage.receipts.find(killedOpening.id)).toMatchObject({ state: "unknown", billedNanos: killedOpening.nanos });
      for (const { id, billedNanos } of killedReceipts) expect(await storage.receipts.find(id)).toMatchObject({ id, billedNanos });
      expect(await database.all(sql`select holder from budget_holds where holder = ${killedHolder}`)).toEqual([]);
      // What this version adds.
      await drainSegment(database, join(location.dataDir, "journal"), segmentOf("new", "segment-new", [], runningReceipts), "dead");
      await storage.keys.change("plain", { note: "changed" }, by);
      await storage.keys.revoke("rotated", by);
      expect(await storage.keys.list({ search: null, revoked: false, after: null, limit: 9 })).toMatchObject([
        { id: "budgeted" },
        { id: "plain", note: "changed" },
      ]);
      await expectSumsToMatch(database);
      const all = [...storedReceipts, ...killedReceipts, ...runningReceipts, killedOpening];
      for (const keyId of ["budgeted", "plain", "rotated"]) {
        const own = all.filter((receipt) => receipt.keyId === keyId).map(({ id }) => id);
        expect(await idsOfKey(sample, keyId)).toEqual(own.toSorted());
      }
    });

    test.each(earlier)(
      "a store of version %i is upgraded while a process of that version goes on, and nothing is lost",
      async (version) => {
        const fixture = storeFixture(version, engine);
        const location = await loadFixture(fixture);
        const old = new OldProcess(fixture, location);
        await old.goOn(2);
        // Two processes of this version start at once.
        const [sample, other] = await Promise.all([openPresent(location, true), openPresent(location, true)]);
        await old.goOn(2);
        await drainSegment(sample.database, join(location.dataDir, "new"), segmentOf("new", "segment-new", [], runningReceipts), "dead");
        await old.goOn(2);
        expect(await old.stop()).toEqual([]);
        const applied = await other.database.all<{ number: number }>(sql`select number from migrations order by number`);
        expect(applied.map(({ number }) => number)).toEqual(migrations.map(({ number }) => number));

        const rounds = Array.from({ length: old.rounds }, (_, at) => (at + 1).toString(16).padStart(roundMark.length, "0"));
        const written = [...rounds, roundMark].flatMap((round) =>
          runningReceipts.map(({ keyId, id, billedNanos }) => ({ keyId, id: id.replace(roundMark, round), billedNanos })),
        );
        const all = [...storedReceipts, ...written];
        for (const { id } of all) expect(await sample.storage.receipts.find(id)).toMatchObject({ id });
        // Version 1 keeps no list of receipts whose id is of another hour than their call: its own are found by their id only.
        const listed = version === 1 ? all.filter(({ id }) => !isStrayOfRound(id)) : all;
        for (const keyId of ["budgeted", "plain", "rotated"]) {
          const own = listed.filter((receipt) => receipt.keyId === keyId).map(({ id }) => id);
          expect(await idsOfKey(sample, keyId)).toEqual(expect.arrayContaining(own));
        }
        await expectSumsToMatch(sample.database);
        expect((await sample.storage.keys.get("plain"))?.note).toBe(`changed by ${rounds.at(-1)}`);
        await expectExactBudget(
          sample,
          all.filter(({ keyId }) => keyId === "budgeted").reduce((sum, { billedNanos }) => sum + (billedNanos ?? 0), 0),
        );
      },
    );

    test.each(earlier)("an upgrade of version %i that is killed is finished by the next start", async (version) => {
      const fixture = storeFixture(version, engine);
      const location = await loadFixture(fixture);
      const child = startMigrating(location.store, location.dataDir, `hang-at-${version + 1}`);
      expect(await child.firstLine()).toBe("in the middle");
      await child.kill();
      expect(await factsOf(await openPresent(location))).toMatchObject(fixture.facts);
    });
  });

  test.skipIf(skipped !== null)(`a gateway serves the keys of the first version's store on ${engine}, and its journal`, async () => {
    const fixture = storeFixture(1, engine);
    const location = await loadFixture(fixture);
    const slot = join(location.dataDir, "journal", "1");
    mkdirSync(slot, { recursive: true });
    writeFileSync(segmentFile(slot, 1), fixture.journal);
    const old = new OldProcess(fixture, location);
    await old.goOn(1);
    await using upstream = await startChaos({ name: "main" });
    await using gateway = await startGateway({
      config: {
        store: location.store,
        data_dir: location.dataDir,
        channels: [{ name: "main", base_url: upstream.url, models: ["gpt-main"] }],
        prices: [{ model: "*", call: 0.01 }],
      },
      env: { SLUICE_MASTER_KEY: sampleMasterKey },
    });
    const statuses: Record<string, number> = {};
    for (const name of ["plain", "budgeted", "rotated", "revoked"] as const) {
      statuses[name] = (await chat(gateway, { model: "gpt-main" }, { key: sampleTokens[name] })).status;
    }
    expect(statuses).toEqual({ plain: 200, budgeted: 200, rotated: 200, revoked: 401 });
    await old.goOn(1);
    expect(await old.stop()).toEqual([]);
    const { database, storage } = await openPresent(location, true);
    for (const { id } of [killedOpening, ...killedReceipts]) {
      await eventually(`receipt ${id} is stored`, async () => (await storage.receipts.find(id)) !== null);
    }
    const calls = storedReceipts.length + killedReceipts.length + 1 + 3 + old.rounds * runningReceipts.length;
    await eventually("all receipts are stored", async () => {
      const [row] = await database.all<{ calls: number }>(sql`select count(*) as calls from receipts`);
      return row?.calls === calls;
    });
    await expectSumsToMatch(database);
  });
}

/** Of an old process: the last receipt of each round has an id of an earlier hour. */
function isStrayOfRound(id: string): boolean {
  return id.endsWith("0004") && !id.includes(roundMark) && runningReceipts.some((receipt) => receipt.id.slice(0, 13) === id.slice(0, 13));
}

/** Nobody gets more of the budget than is left, and all of that can be had. */
async function expectExactBudget({ database, storage }: OpenedSample, spentNanos: number): Promise<void> {
  const request = { ...budgetRequest, holder: "new", wish: 0 };
  const refused = await storage.budgets.hold({ ...request, need: budgetNanos });
  expect(refused).toMatchObject({ ok: false, spentNanos });
  const [held] = await database.all<{ nanos: number }>(sql`select cast(coalesce(sum(nanos), 0) as bigint) as nanos from budget_holds`);
  const left = budgetNanos - spentNanos - held!.nanos;
  expect(await storage.budgets.hold({ ...request, need: left + 1 })).toMatchObject({ ok: false, heldNanos: held!.nanos });
  expect(await storage.budgets.hold({ ...request, need: left })).toMatchObject({ ok: true, nanos: left, leftNanos: 0 });
}

describe("a backup", () => {
  test.each(earlier)("of a store of version %i is restored, and so is the copy from before its upgrade", async (version) => {
    const fixture = storeFixture(version, "sqlite");
    const plain = storeFile((await loadFixture(fixture)).dataDir);
    const dataDir = freshDataDir();
    await restoreStore({ from: { file: plain, passphrase: null, checkOnly: false }, dataDir, given: sampleMasterKey });
    const location = { store: "sqlite", dataDir };
    await (await openStoreAt(location)).close();
    // Three copies are kept; this one is of the version itself, or of one soon after it.
    const [copy] = readdirSync(dataDir).filter((name) => name.includes(".before-"));
    const copied = join(freshDataDir(), "copy");
    copyFileSync(join(dataDir, copy!), copied);
    await restoreStore({ from: { file: copied, passphrase: null, checkOnly: false }, dataDir, given: sampleMasterKey });
    expect(await factsOf(await openPresent(location))).toMatchObject(fixture.facts);
  });

  test("that the first version encrypted is restored", async () => {
    const dataDir = freshDataDir();
    const restored = await restoreStore({
      from: { file: firstBackup, passphrase: null, checkOnly: false },
      dataDir,
      given: sampleMasterKey,
    });
    expect(restored.masterKey).toEqual({ kind: "fits" });
    expect(existsSync(storeFile(dataDir))).toBe(true);
    expect(await factsOf(await openPresent({ store: "sqlite", dataDir }))).toMatchObject(storeFixture(1, "sqlite").facts);
  });
});
