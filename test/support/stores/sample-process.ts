import type { Database } from "../../../src/store/database.ts";
import { retain } from "../../../src/store/retention.ts";
import { SqlCounts } from "../../../src/store/tables/count-table.ts";
import { SqlHints } from "../../../src/store/tables/hint-table.ts";
import { RecordingDatabase, type RecordedStep } from "./recording-database.ts";
import { roundMark, runningReceipts, sampleMs, segmentOf } from "./sample-receipts.ts";
import { budgetRequest, by, drainSegment, idsOf, openSample, sampleHolder, sampleTokens } from "./sample-store.ts";

/** One thing that a process does with the store, and the statements that it makes for it. */
export interface RecordedWork {
  readonly work: string;
  readonly steps: readonly RecordedStep[];
}

/** What a gateway does with the store while it serves calls, in the statements of this version. */
export async function recordProcess(database: Database, dataDir: string, journal: string): Promise<readonly RecordedWork[]> {
  const recording = new RecordingDatabase(database);
  const { storage, master } = await openSample(recording, dataDir, idsOf(roundMark));
  const clock = { wallMs: () => sampleMs };
  const counts = new SqlCounts(recording, clock);
  const hints = new SqlHints(recording, clock);
  const query = { model: null, channel: null, sinceMs: null, untilMs: null };
  const slot = { id: "budgeted concurrency", limit: 5, call: `call-${roundMark}`, ttlMs: 30_000 };
  const works: Readonly<Record<string, () => Promise<unknown>>> = {
    "authenticate a call": () => storage.keys.byDigest(master.digest(sampleTokens.budgeted)),
    "follow changes": async () => [
      await storage.keys.changedSince(1, 100),
      await storage.groups.changedSince(1),
      await storage.channels.list(),
      await storage.prices.list(),
    ],
    "lease money of a budget": () => storage.budgets.hold(budgetRequest),
    "lease requests and a slot": () => counts.take([{ id: "budgeted rpm", limit: 100_000, need: 1, wish: 2, sharers: 2 }], [slot]),
    "free the slot": () => counts.release(slot.id, [slot.call]),
    "store receipts": async () =>
      drainSegment(recording, journal, segmentOf(sampleHolder, `segment-${roundMark}`, [], runningReceipts), "live"),
    "renew the lease": () => storage.budgets.renew(sampleHolder, [{ budget: budgetRequest.budget, nanos: 20_000_000 }], 600_000),
    "note when keys were used": () => storage.keys.used(new Map([["budgeted", sampleMs + 60_000]])),
    "announce itself": () => counts.heartbeat(sampleHolder, 60_000),
    "share a cool-down": async () => [
      await hints.publish({ scope: "channel spare", cause: "rate_limited", forMs: 90_000 }),
      await hints.read(),
    ],
    "change a key": () => storage.keys.change("plain", { note: `changed by ${roundMark}` }, by),
    "show receipts of a key": () => storage.receipts.list({ ...query, state: null, before: null, limit: 200, keyId: "budgeted" }),
    "show usage": async () => [
      await storage.receipts.usage({ ...query, keyId: null, by: ["key", "day"] }),
      await storage.receipts.usage({ ...query, keyId: null, by: ["model"], sinceMs: sampleMs - 50 * 3_600_000, untilMs: sampleMs }),
    ],
    "remove what is too old": () => retain(recording, { receiptsMs: 1e11, hoursMs: 1e11, wallMs: sampleMs }),
    "keep a session": async () => {
      const digest = master.adminDigest("session-1");
      await storage.accounts.session(digest);
      await storage.accounts.seen(digest, sampleMs + 1_000);
    },
  };
  const recorded: RecordedWork[] = [];
  for (const [work, run] of Object.entries(works)) {
    recording.steps.length = 0;
    await run();
    recorded.push({ work, steps: [...recording.steps] });
  }
  return recorded;
}
