import { writeSync } from "node:fs";
import { join } from "node:path";
import { startDrain } from "../../src/store/drain/drain-control.ts";
import { openJournal } from "../../src/store/journal/journal.ts";
import { sampleOpening, sampleReceipt } from "./journal-receipts.ts";

/**
 * A program that is to be killed: it keeps receipts as fast as it is told to, drains them into the store meanwhile, and says on
 * its standard output which ones it was promised: `closed <id>`, or `open <id>` for a call that never ends.
 */
const [dataDir = "", store = "", holder = ""] = process.argv.slice(2);

const journal = openJournal({ folder: join(dataDir, "journal"), holder, onError: complain, segmentBytes: 60_000 });
startDrain({ journal, database: { store, dataDir }, onError: complain, onReport: complain, pollMs: 5, adoptMs: 100 });

function complain(what: unknown): void {
  if (what !== null) console.error(what);
}

async function call(number: number): Promise<string> {
  const opening = sampleOpening({ startedMs: Date.now() });
  await journal.open(opening);
  if (number % 40 === 0) return `open ${opening.id}\n`;
  await journal.close(sampleReceipt({ id: opening.id, startedMs: opening.startedMs, billedNanos: number }));
  return `closed ${opening.id}\n`;
}

for (let number = 0; ; number += 10) {
  const promised = await Promise.all(Array.from({ length: 10 }, async (_, at) => call(number + at)));
  writeSync(1, promised.join(""));
  await Bun.sleep(1);
}
