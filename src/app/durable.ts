import { configExitCode, StartProblem } from "../cli/process/start-problem.ts";
import type { Timers } from "../clock/timers.ts";
import type { Settings } from "../config/settings.ts";
import type { Limiter } from "../gateway/admission/limiter.ts";
import type { ReceiptBook } from "../gateway/settlement/record.ts";
import { StorageError, type Storage } from "../gateway/storage.ts";
import type { ItemMemory } from "../operations/conversation/kept-items.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";
import type { RateLimitStore } from "../limits/rate-limit-store.ts";
import { BudgetLedger } from "../state/budgets/budget-ledger.ts";
import { DrainedMark } from "../state/budgets/drained-mark.ts";
import { RefusedBudgets } from "../state/budgets/refused-budgets.ts";
import { LocalItems } from "../state/local-items.ts";
import { makeLimiter } from "../state/limiter.ts";
import { MemoryRateLimits } from "../state/memory-rate-limits.ts";
import type { Database } from "../store/database.ts";
import { startDrain, type DrainLag } from "../store/drain/drain-control.ts";
import { openJournal } from "../store/journal/journal.ts";
import { MasterKeyError } from "../store/secrets/master-key-file.ts";
import { openMasterKey, type MasterKey } from "../store/secrets/master-key.ts";
import { makeTextSeal } from "../store/secrets/text-seal.ts";
import { connectDatabase, openDatabase, type OpenOptions } from "../store/open.ts";
import { connectionShares } from "../store/postgres/connection-shares.ts";
import { PostgresDatabase } from "../store/postgres/postgres.ts";
import { storageInThread } from "../store/sqlite/storage-in-thread.ts";
import { ThreadDatabase } from "../store/sqlite/thread-database.ts";
import { makePartitions } from "../store/postgres/receipt-partitions.ts";
import { StandbyReads } from "../store/postgres/standby-reads.ts";
import { makeReceiptStorage } from "../store/receipts/receipt-table.ts";
import { retain } from "../store/retention.ts";
import { idsBy, makeStorage, newId } from "../store/storage.ts";
import { lookAtClock, lookEveryMs, type ClockLook } from "../store/steady-clock.ts";
import { storeClock, type StoreClock } from "../store/store-clock.ts";
import type { DamagedRow } from "../store/tables/change.ts";
import { makeChannelSecrets, type ChannelSecrets } from "../store/secrets/channel-secrets.ts";
import type { Log } from "../telemetry/log.ts";
import { isoMoment } from "../usage/time-text.ts";
import { join } from "node:path";

/** An open store, without the parts that only a running gateway needs. */
export interface Store {
  readonly database: Database;
  readonly storage: Storage;
  readonly masterKey: MasterKey;
  readonly channelSecrets: ChannelSecrets;
  /** The wall clock that all processes of the store agree on. */
  readonly clock: StoreClock;
}

export type StoreSettings = Pick<Settings, "store" | "dataDir"> & Partial<Pick<Settings, "storeConnections">>;

export async function openStore(
  settings: StoreSettings,
  givenMasterKey: string | null,
  threaded: boolean,
  damaged: (row: DamagedRow) => void = () => {},
): Promise<Store> {
  const database = await openDatabase({ ...databaseOptions(settings, threaded), givenMasterKey });
  try {
    const masterKey = await openMasterKey({ dataDir: settings.dataDir, given: givenMasterKey, database });
    const { sealing, next } = masterKey;
    const channelSecrets = next === null ? makeChannelSecrets(sealing) : makeChannelSecrets(sealing, next);
    const clock = storeClock(database, { nowMs: () => performance.now(), wallMs: Date.now });
    await clock.sync();
    const context = { wallMs: clock.wallMs, newId: idsBy(clock.wallMs), damaged, channelSecrets };
    const storage = database instanceof ThreadDatabase ? storageInThread(database, context) : makeStorage(database, context);
    return { database, storage, masterKey, channelSecrets, clock };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** What a running gateway stores, and shares with other processes. */
export interface Durable extends Store {
  /** The same store for long queries, which do not delay calls. */
  readonly reports: Storage;
  readonly limiter: Limiter;
  readonly refusedBudgets: RefusedBudgets;
  /** How long a call waits for the store if it does not answer; undefined: for as long as whoever asks gives a store that may be lost. */
  readonly silenceMs: number | undefined;
  readonly receipts: ReceiptBook;
  /** Seals what clients carry, and what replicas share. */
  readonly seal: TextSeal;
  readonly items: ItemMemory;
  /** Tells other processes that a scope cools down. */
  readonly hint: (scope: string, cause: string, forMs: number) => void;
  readonly status: () => DurableStatus;
  /** The name under which this process holds concurrency slots and money. */
  readonly member: string;
  /** Frees what a process of the same data folder held, which has ended: at once instead of when it expires. Resolves when that is done. */
  freeMember(member: string): Promise<void>;
  /** Resolves when the receipts of earlier runs are in the store, or after a time limit. */
  readonly recovered: Promise<void>;
  stop(): Promise<void>;
}

export interface DurableStatus {
  readonly lag: DrainLag;
  readonly journalFull: boolean;
  /** How limits are shared with other processes, and whether that works. */
  readonly state: { readonly kind: string; readonly ok: boolean };
}

export interface DurableOptions {
  readonly settings: Settings;
  readonly givenMasterKey: string | null;
  /** How many processes of this machine share the port. */
  readonly workers: number;
  readonly log: Log;
  readonly timers: Timers;
  readonly nowMs: () => number;
  readonly onHint: (scope: string, cause: string, forMs: number) => void;
}

export async function openDurable(options: DurableOptions): Promise<Durable> {
  const { settings, log, nowMs } = options;
  const after = (ms: number, then: () => void): (() => void) => options.timers.after(ms, then);
  const damaged = (row: DamagedRow): void => log.error("damaged_row", { ...row });
  const store = await openStore(settings, options.givenMasterKey, true, damaged).catch((error: unknown) => {
    throw forOperators(error);
  });
  const reportsDatabase = connectDatabase({
    ...databaseOptions(settings, true),
    restMs: reportRestMs,
    statementMs: reportMs,
    connectionsMax: connectionShares(settings.storeConnections).reports,
  });
  const standbyReads = openStandbyReads(options, reportsDatabase);
  const reports = reportsOf(store, reportsDatabase, standbyReads, damaged);
  const holder = newId();
  const journal = openJournal({
    folder: join(settings.dataDir, "journal"),
    holder,
    sync: settings.receipts.sync,
    onError: (trouble) => {
      if (trouble === null) log.info("journal_recovered", {});
      else log.error("journal_trouble", { detail: trouble.message, lost: trouble.lost });
    },
  });
  const drain = startDrain({
    journal,
    database: {
      ...databaseOptions(settings, false),
      connectionsMax: connectionShares(settings.storeConnections).receipts,
      poolerChecked: true,
    },
    keptShare: settings.receipts.keptShare,
    onError: (message) => {
      if (message === null) log.info("drain_recovered", {});
      else log.warn("drain_trouble", { detail: message });
    },
    onReport: (message) => log.error("journal_damage", { detail: message }),
  });
  // Everything that was settled before this moment is in the store, and so in the sums that budgets use.
  const drainedMark = new DrainedMark(nowMs() - turnMs);
  const drained = (): number =>
    drainedMark.look(nowMs() - turnMs, { written: journal.written().receipts, behind: drain.lag().receipts, stuck: journal.full });
  const { workers, onHint } = options;
  const shared = sharesState(settings, workers)
    ? // Imported here because a process that shares nothing needs none of it.
      (await import("./distributed-state.ts")).openSharedState({
        settings,
        database: store.database,
        workers,
        holder,
        log,
        nowMs,
        after,
        onHint,
      })
    : null;
  const seal = makeTextSeal(store.masterKey.carried);
  const localItems = new LocalItems({ nowMs, after });
  const rates: RateLimitStore = shared?.rates ?? new MemoryRateLimits(nowMs);
  const silenceMs = store.database.engine === "sqlite" ? localStoreMs : undefined;
  const budgets = new BudgetLedger({
    storage: store.storage.budgets,
    holder,
    nowMs,
    wallMs: store.clock.wallMs,
    after,
    drainedMs: drained,
    silenceMs,
    ...(shared === null ? undefined : { processes: shared.membership.count }),
  });
  const refusedBudgets = new RefusedBudgets(store.clock.wallMs);
  const stopRetention = startRetention(reportsDatabase, settings, log, after, store.clock.wallMs);
  const stopComparing = compareClocks(store.clock, after);
  return {
    ...store,
    reports,
    limiter: makeLimiter({ rates, budgets, wallMs: store.clock.wallMs, refusals: refusedBudgets }),
    refusedBudgets,
    silenceMs,
    receipts: journal,
    seal,
    items: shared?.items(localItems, seal) ?? localItems,
    hint: (scope, cause, forMs) => shared?.hints.publish(scope, cause, forMs),
    status: () => ({
      lag: drain.lag(),
      journalFull: journal.full,
      state: { kind: shared?.kind ?? "memory", ok: shared === null || shared.guard.health() === "ok" },
    }),
    member: holder,
    freeMember: onceAtATime(async (member) => {
      const free = async (): Promise<void> => void (await Promise.all([drain.release(member), shared?.freeMember(member)]));
      await free();
      // What it had sent to a server when it died may be carried out after that.
      after(freeOnceMoreMs, () => void free().catch(() => {}));
    }),
    recovered: Promise.race([drain.idle(), new Promise<void>((resolve) => void after(recoverMs, resolve))]),
    stop: async () => {
      stopRetention();
      stopComparing();
      localItems.stop();
      const endMs = nowMs() + stopMsMax;
      const ended = (work: Promise<void> | undefined): Promise<void> => within(Math.min(stopMs, Math.max(0, endMs - nowMs())), work);
      await ended(shared?.stop());
      await ended(budgets.stop());
      await ended(journal.flush());
      await ended(drain.idle());
      await ended(drain.stop());
      await ended(journal.stop());
      await ended(standbyReads?.close());
      await ended(reportsDatabase.close());
      await ended(store.database.close());
    },
  };
}

/** Another start cannot fix a master key that is not the store's, or a store that is damaged or too new. A store that is away may come back. */
function forOperators(error: unknown): unknown {
  const isLasting = error instanceof MasterKeyError || (error instanceof StorageError && error.kind === "damaged");
  return isLasting ? new StartProblem(error.message, configExitCode) : error;
}

/** A process that is alone with its store counts in its own memory. */
function sharesState({ state, store }: Settings, workers: number): boolean {
  return state !== "memory" || store !== "sqlite" || workers > 1;
}

function databaseOptions({ store, storeConnections, dataDir }: StoreSettings, threaded: boolean): OpenOptions {
  return {
    store,
    dataDir,
    threaded,
    ...(storeConnections === undefined ? {} : { connectionsMax: connectionShares(storeConnections).calls }),
  };
}

/** Queries for usage and receipts go to the standby, if there is one. */
function openStandbyReads({ settings, log, nowMs }: DurableOptions, primary: Database): StandbyReads | null {
  const { readStore, storeConnections } = settings;
  if (readStore === "store") return null;
  const { reports } = connectionShares(storeConnections);
  return new StandbyReads({
    standby: new PostgresDatabase(readStore, { statementMs: reportMs, connectionsMax: reports }),
    probe: new PostgresDatabase(readStore, { statementMs: probeMs, connectionsMax: 1 }),
    primary,
    nowMs,
    notice: (reason) => (reason === null ? log.info("read_store_back", {}) : log.warn("read_store_lost", { detail: reason })),
  });
}

function reportsOf(store: Store, database: Database, standbyReads: StandbyReads | null, damaged: (row: DamagedRow) => void): Storage {
  const { clock, channelSecrets } = store;
  const primary = makeStorage(database, { wallMs: clock.wallMs, newId: idsBy(clock.wallMs), damaged, channelSecrets });
  if (standbyReads === null) return primary;
  const receipts = makeReceiptStorage(standbyReads);
  // A call that has just ended may not have reached the standby.
  const find: typeof receipts.find = async (id) => (await receipts.find(id)) ?? (await primary.receipts.find(id));
  return { ...primary, receipts: { ...receipts, find } };
}

/** Whoever asks for the same while it is being done gets the same answer. */
function onceAtATime(act: (name: string) => Promise<void>): (name: string) => Promise<void> {
  const running = new Map<string, Promise<void>>();
  return (name) => {
    const begun = running.get(name) ?? act(name).finally(() => running.delete(name));
    running.set(name, begun);
    return begun;
  };
}

type StoreAfter = (ms: number, then: () => void) => () => void;

/** Removes old receipts, soon after the start and then once an hour. */
export function startRetention(
  database: Database,
  { receipts }: Pick<Settings, "receipts">,
  log: Pick<Log, "info" | "warn">,
  after: StoreAfter,
  wallMs: () => number,
): () => void {
  let disarm: () => void = () => {};
  let stopped = false;
  const round = async (): Promise<void> => {
    try {
      const nowMs = wallMs();
      if (database.engine === "postgres") await makePartitions(database, nowMs);
      const { steady, jumped } = await lookAtClock(database, nowMs);
      if (jumped !== null) log.warn("retention_trouble", { detail: jumpText(jumped) });
      // With nothing to delete, it only lets the database rest.
      const [receiptsMs, hoursMs] = steady ? [receipts.keepMs, receipts.keepHoursMs] : [null, null];
      const gone = await retain(database, { receiptsMs, hoursMs, wallMs: nowMs });
      if (gone.days + gone.receipts + gone.hours > 0) log.info("forgotten", { ...gone });
    } catch (error) {
      // The next round tries again. A store that never lets go of receipts, as where its user may not drop tables, must not fill up unseen.
      if (!stopped) log.warn("retention_trouble", { detail: error instanceof Error ? error.message : String(error) });
    }
    if (!stopped) disarm = after(lookEveryMs, () => void round());
  };
  disarm = after(forgetFirstMs, () => void round());
  return () => {
    stopped = true;
    disarm();
  };
}

function jumpText({ fromMs, toMs }: NonNullable<ClockLook["jumped"]>): string {
  return `The clock went from ${isoMoment(fromMs)} to ${isoMoment(toMs)} since the last look: nothing is deleted before a gateway has run for a day.`;
}

function compareClocks(clock: StoreClock, after: StoreAfter): () => void {
  let stopped = false;
  let disarm: () => void = () => {};
  const later = (): void => {
    if (!stopped) disarm = after(compareEveryMs, () => void clock.sync().then(later));
  };
  later();
  return () => {
    stopped = true;
    disarm();
  };
}

async function within(ms: number, work: Promise<void> | undefined): Promise<void> {
  if (work === undefined) return;
  await Promise.race([work.catch(() => {}), new Promise<void>((resolve) => setTimeout(resolve, ms).unref())]);
}

/**
 * How long a call waits for a store on this machine that does not answer: it is not lost, but the machine has no time for it. One that
 * fails says so at once. It is less than the time after which a request for money is given up.
 */
const localStoreMs = 20_000;
/** How long a receipt may take from its call to the journal. */
const turnMs = 250;
const reportMs = 60_000;
const reportRestMs = 30_000;
/** A standby that has not answered a trivial query by then is not waited for. */
const probeMs = 2_000;
const freeOnceMoreMs = 1_000;
const recoverMs = 2_000;
const stopMs = 5_000;
/** All steps together. Whoever supervises the process waits somewhat longer than this and the drain (deploy/). */
const stopMsMax = 20_000;
const compareEveryMs = 30_000;
const forgetFirstMs = 60_000;
