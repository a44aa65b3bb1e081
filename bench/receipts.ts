import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startDrain } from "../src/store/drain/drain-control.ts";
import { openJournal, type Journal } from "../src/store/journal/journal.ts";
import { openDatabase } from "../src/store/open.ts";
import { type Receipt, requestNameOf } from "../src/usage/receipt.ts";
import { median } from "./statistics.ts";

/** What receipts cost: on the thread that serves calls, and on their way into the store. */
export interface ReceiptCost {
  /** CPU time of the process for one receipt at a steady rate, with the writes and the syncs, but without the drain. */
  readonly cpuMicrosPerReceipt: number;
  /** What the drain adds to that at the same rate. */
  readonly drainMicrosPerReceipt: number;
  /** Time that the call itself takes. */
  readonly closeMicros: number;
  /** From the call until its promise resolves. */
  readonly keptMillis: { readonly median: number; readonly p99: number };
}

/** Keeps receipts of so many keys in turn at a steady rate; nothing drains them at first, and then SQLite does. */
export async function receiptCost(perSecond: number, seconds: number, keys: number): Promise<ReceiptCost> {
  return inFolder(async (folder) => {
    const receiptOf = receiptsOf(keys);
    const database = { store: "sqlite", dataDir: folder };
    await (await openDatabase(database)).close();
    const journal = journalIn(folder);
    const perTick = Math.ceil(perSecond / 1_000);
    const closes: number[] = [];
    const waits: number[] = [];
    for (let warm = 0; warm < 20_000; warm += 1) {
      await (warm % 50 === 0 ? journal.close(receiptOf(warm)) : Promise.resolve(void journal.close(receiptOf(warm))));
    }
    await journal.flush();
    const idle = await cpuOf(perSecond, seconds, perTick, (number) => void receiptOf(number));
    const busy = await cpuOf(perSecond, seconds, perTick, (number, last) => {
      const receipt = receiptOf(number);
      const beganMs = performance.now();
      const kept = journal.close(receipt);
      closes.push(performance.now() - beganMs);
      if (last) void kept.then(() => void waits.push(performance.now() - beganMs));
    });
    const drain = startDrain({ journal, database, onError: complain, onReport: complain });
    const keep = (number: number): void => void journal.close(receiptOf(number));
    await cpuOf(perSecond, warmSeconds, perTick, keep);
    await drain.idle();
    const drained = await cpuOf(perSecond, seconds, perTick, keep, async () => drain.idle());
    await drain.stop();
    await journal.stop();
    waits.sort((one, other) => one - other);
    return {
      cpuMicrosPerReceipt: (busy.cpuMicros - idle.cpuMicros) / busy.receipts,
      drainMicrosPerReceipt: (drained.cpuMicros - busy.cpuMicros) / busy.receipts,
      closeMicros: median(closes) * 1_000,
      keptMillis: { median: median(waits), p99: waits[Math.floor(waits.length * 0.99)] ?? 0 },
    };
  });
}

/** Of which the drain's thread compiles what it does so often. */
const warmSeconds = 3;

async function cpuOf(
  perSecond: number,
  seconds: number,
  perTick: number,
  each: (number: number, last: boolean) => void,
  end: () => Promise<void> = async () => {},
) {
  const before = process.cpuUsage();
  const beganMs = performance.now();
  let receipts = 0;
  while (receipts < perSecond * seconds) {
    const due = Math.min(perSecond * seconds, ((performance.now() - beganMs) / 1_000) * perSecond);
    for (; receipts < due; receipts += 1) each(receipts, receipts % perTick === 0);
    await Bun.sleep(1);
  }
  await end();
  const { user, system } = process.cpuUsage(before);
  return { cpuMicros: user + system, receipts };
}

/** Receipts per second that get from a journal into the store: `sqlite`, or the address of an empty PostgreSQL database. */
export async function receiptsDrained(store: string, receipts: number): Promise<number> {
  return inFolder(async (folder) => {
    const database = { store, dataDir: folder };
    await (await openDatabase(database)).close();
    const journal = journalIn(folder);
    const receiptOf = receiptsOf(20);
    for (let number = 0; number < receipts; number += 1) {
      const kept = journal.close(receiptOf(number));
      if (number % 500 === 0) await kept;
    }
    await journal.flush();
    const beganMs = performance.now();
    const drain = startDrain({ journal, database, onError: complain, onReport: complain });
    await drain.idle();
    const seconds = (performance.now() - beganMs) / 1_000;
    await drain.stop();
    await journal.stop();
    return receipts / seconds;
  });
}

function complain(what: string | null): void {
  if (what !== null) console.error(what);
}

function journalIn(folder: string): Journal {
  return openJournal({
    folder: join(folder, "journal"),
    holder: "bench",
    onError: (trouble) => complain(trouble?.message ?? null),
  });
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-receipts-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** So many keys, each with one of five models over one of three channels. */
function receiptsOf(keys: number): (number: number) => Receipt {
  const keyIds = Array.from({ length: keys }, () => crypto.randomUUID());
  return (number) => receiptOf(number, number % keys, keyIds[number % keys]!);
}

function receiptOf(number: number, key: number, keyId: string): Receipt {
  const id = Bun.randomUUIDv7();
  const channel = `channel-${key % 3}`;
  const model = `model-${key % 5}`;
  const figures = {
    promptTokens: 812,
    cachedTokens: 512,
    completionTokens: number % 400,
    reasoningTokens: null,
    audioSeconds: null,
    characters: null,
  };
  return {
    id,
    requestId: requestNameOf(id),
    keyId,
    operation: "chat",
    model,
    channel,
    upstreamModel: `${model}-2026-01-01`,
    stream: true,
    status: 200,
    state: "complete",
    error: null,
    startedMs: Date.now(),
    tookMs: 1_234,
    firstContentMs: 345,
    delivered: figures,
    generatedTokens: number % 400,
    billedNanos: 123_456 + number,
    hedgeWasteNanos: 0,
    costUncertain: false,
    estimated: false,
    partial: false,
    warning: null,
    finish: null,
    cacheSavedNanos: null,
    owners: [],
    channelTags: [],
    attempts: [
      {
        ...figures,
        channel,
        model: `${model}-2026-01-01`,
        afterMs: 1,
        tookMs: 1_230,
        outcome: "answered",
        status: 200,
        error: null,
        blame: null,
        hedge: false,
        nanos: 123_456 + number,
        costUncertain: false,
        estimated: false,
      },
    ],
    plan: null,
  };
}
