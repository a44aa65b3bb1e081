// Needs: servers. It uses a real PostgreSQL or Redis.
import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { startDrain } from "../../src/store/drain/drain-control.ts";
import { openJournal } from "../../src/store/journal/journal.ts";
import { segmentsIn, slotFolders } from "../../src/store/journal/folder.ts";
import { openDatabase } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { engines, freshDataDir, freshPostgresUrl } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { numRuns } from "../support/properties.ts";

setDefaultTimeout(60_000);

const program = join(import.meta.dir, "../support/journal-writer.ts");

/** What a process that was killed in the midst of its work had been promised. */
async function killed(dataDir: string, store: string, holder: string, afterMs: number): Promise<readonly string[]> {
  const child = Bun.spawn([process.execPath, program, dataDir, store, holder], { stdout: "pipe", stderr: "inherit" });
  let said = "";
  const reading = (async () => {
    for await (const piece of child.stdout) said += new TextDecoder().decode(piece);
  })();
  try {
    await eventually("the program works", () => said !== "", 15_000);
    await Bun.sleep(afterMs);
  } finally {
    child.kill("SIGKILL");
    await child.exited;
  }
  await reading;
  return said.slice(0, said.lastIndexOf("\n")).split("\n");
}

async function surviveKills(store: string, kills: number): Promise<void> {
  const dataDir = freshDataDir();
  const promised: string[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    // Now and then two processes share the folder, and the one finds what the other left behind.
    const both = kill % 5 === 4 ? 2 : 1;
    const lines = await Promise.all(
      Array.from({ length: both }, async (_, at) => killed(dataDir, store, `holder-${at}`, 20 + Math.random() * 180)),
    );
    promised.push(...lines.flat());
  }
  const journal = openJournal({ folder: join(dataDir, "journal"), holder: "last", onError: () => {} });
  const reports: string[] = [];
  const drain = startDrain({
    journal,
    database: { store, dataDir },
    onError: () => {},
    onReport: (message) => reports.push(message),
    adoptMs: 50,
  });
  const database = await openDatabase({ store, dataDir });
  try {
    await drain.idle();
    await eventually("other slots are empty", () =>
      slotFolders(journal.folder).every((slot) => slot === journal.slotFolder || segmentsIn(slot).length === 0),
    );
    const rows = await database.all<{ id: string; state: string }>(sql`select id, state from receipts`);
    const states = new Map(rows.map(({ id, state }) => [id, state]));
    const wrong = promised.filter((line) => {
      const [what = "", id = ""] = line.split(" ");
      return states.get(id) !== (what === "closed" ? "complete" : "unknown");
    });
    expect(wrong).toEqual([]);
    expect(promised.length).toBeGreaterThan(kills * 20);
    expect(states.size).toBe(rows.length);
    const expected = await database.all(sql`select cast(count(*) as bigint) as calls, cast(sum(billed_nanos) as bigint) as nanos,
      cast(sum(prompt_tokens) as bigint) as tokens from receipts`);
    for (const table of [sql`usage_hours`, sql`usage_days`]) {
      const sums = await database.all(sql`select cast(sum(calls) as bigint) as calls, cast(sum(nanos) as bigint) as nanos,
        cast(sum(prompt_tokens) as bigint) as tokens from ${table}`);
      expect(sums).toEqual(expected);
    }
    const attempts = await database.all<{ n: number }>(sql`select
      (select count(*) from attempts) + (select count(*) from receipts where attempt_after_ms is not null) as n`);
    expect(attempts[0]?.n).toBe(rows.filter(({ state }) => state === "complete").length);
    // What a killed process was writing may be torn; nothing else may be damaged.
    expect(reports.filter((report) => !report.includes("no whole record"))).toEqual([]);
    console.log(`${kills} kills: ${promised.length} promised, 0 lost; ${rows.length} rows, 0 doubled`);
  } finally {
    await drain.stop();
    await journal.stop();
    await database.close();
  }
}

test("processes killed under load lose and duplicate nothing, on SQLite", async () => {
  await surviveKills("sqlite", numRuns(6));
});

test.skipIf(engines[1]!.skipped !== null)("processes killed under load lose and duplicate nothing, on PostgreSQL", async () => {
  await surviveKills(await freshPostgresUrl(), 5);
});
