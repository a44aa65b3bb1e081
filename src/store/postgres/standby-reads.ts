import { StorageError } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import { masterKeySetting } from "../secrets/master-key.ts";
import { sql, type Sql } from "../sql.ts";

export interface StandbyReadsOptions {
  /** A standby server, which follows the primary and cannot be written to. */
  readonly standby: Database;
  /** The same standby, with a short timeout. */
  readonly probe: Database;
  readonly primary: Database;
  readonly nowMs: () => number;
  /** Called when queries go to the primary because the standby does not answer them, and with null when it does again. */
  readonly notice: (reason: string | null) => void;
  /** How far the standby may be behind the primary. */
  readonly lagMsMax?: number;
}

/**
 * Sends queries to a standby server, and to the primary while the standby cannot answer them: it is gone, hangs, does not have the
 * schema yet, belongs to another store, or is too far behind. Everything else goes to the primary. A standby lags behind, so that only queries whose answer may be a moment old
 * belong here.
 */
export class StandbyReads implements Database {
  readonly engine = "postgres";
  private lostUntilMs = Number.NEGATIVE_INFINITY;
  private isLost = false;
  private checkedMs = Number.NEGATIVE_INFINITY;
  /** The check that is under way: queries that come meanwhile wait for it. */
  private checking: Promise<void> | null = null;
  /** What the primary had written when the standby was found to be behind, and when that was; null while it is not behind. */
  private foundBehind: { readonly lsn: string; readonly atMs: number } | null = null;

  constructor(private readonly options: StandbyReadsOptions) {}

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    const { standby, probe, primary, nowMs } = this.options;
    if (nowMs() < this.lostUntilMs) return primary.all<Row>(query);
    let rows: Row[] | null = null;
    try {
      // A long query gets a long timeout. A server that hangs is noticed before it.
      await probe.all(sql`select 1`);
      if (this.isLost || this.foundBehind !== null || nowMs() - this.checkedMs >= checkEveryMs) {
        await (this.checking ??= this.checkStandby().finally(() => void (this.checking = null)));
      }
      if (this.foundBehind === null) rows = await standby.all<Row>(query);
    } catch (error) {
      if (error instanceof StorageError && error.kind === "invalid") throw error;
      this.lost(error instanceof Error ? error.message : String(error));
    }
    // Outside of the `try`: what fails on the primary is not the fault of the standby.
    if (rows === null) return primary.all<Row>(query);
    if (this.isLost) this.options.notice(null);
    this.isLost = false;
    return rows;
  }

  run(query: Sql): Promise<number> {
    return this.options.primary.run(query);
  }

  transaction<T>(work: (database: Database) => Promise<T>): Promise<T> {
    return this.options.primary.transaction(work);
  }

  /** The primary is closed by its owner. */
  async close(): Promise<void> {
    await Promise.all([this.options.standby.close(), this.options.probe.close()]);
  }

  /**
   * Whether the standby is one, and follows. Rejects only where that is certain. What it cannot know, as of a hosted server, a replica of
   * another kind, or because the primary does not answer, is no reason not to ask it.
   */
  private async checkStandby(): Promise<void> {
    const { primary, probe, nowMs, lagMsMax = lagMsDefault } = this.options;
    this.checkedMs = nowMs();
    const [[own], [theirs], [written]] = await Promise.all([
      rowsOrNone(primary.all<StoreMark>(storeMark)),
      rowsOrNone(probe.all<StoreMark>(storeMark)),
      rowsOrNone(primary.all<{ readonly lsn: string }>(sql`select cast(pg_current_wal_lsn() as text) as lsn`)),
    ]);
    if (own !== undefined && theirs !== undefined && own.value !== theirs.value) {
      throw new StorageError(
        "unavailable",
        "The server in read_store has another store, or not the current one: give the address of a standby.",
      );
    }
    // An idle primary writes nothing: time alone does not tell that a standby is behind.
    const isBehind = async (lsn: string): Promise<boolean> => {
      const late = await rowsOrNone(
        probe.all<object>(sql`
          select 1 as late where pg_is_in_recovery() and pg_last_wal_replay_lsn() < cast(${lsn} as pg_lsn)
            and coalesce(extract(epoch from now() - pg_last_xact_replay_timestamp()) * 1000 > ${lagMsMax}, true)`),
      );
      return late.length > 0;
    };
    if (this.foundBehind !== null && !(await isBehind(this.foundBehind.lsn))) this.foundBehind = null;
    // A standby that is always late has replayed what was once found to be missing, and now misses something else.
    if (this.foundBehind === null && written !== undefined && (await isBehind(written.lsn))) {
      // After a pause of the primary the last change is old, and the next one may be on its way. That takes a moment, during which the primary is asked.
      this.foundBehind = { lsn: written.lsn, atMs: nowMs() };
    }
    if (this.foundBehind === null || nowMs() - this.foundBehind.atMs < replayGraceMs) return;
    throw new StorageError("unavailable", `The standby is more than ${Math.round(lagMsMax / 1_000)} s behind: check its replication.`);
  }

  private lost(reason: string): void {
    this.lostUntilMs = this.options.nowMs() + skipMs;
    if (!this.isLost) this.options.notice(reason);
    this.isLost = true;
  }
}

/** What a store and its standby have in common, and no two stores. It changes only while no gateway runs. */
interface StoreMark {
  readonly value: string;
}
const storeMark = sql`select value from settings where name = ${masterKeySetting}`;

/** The rows of an answer; none if it fails or takes too long. */
async function rowsOrNone<Row>(answer: Promise<readonly Row[]>): Promise<readonly Row[]> {
  const { promise: tooLate, resolve } = Promise.withResolvers<readonly Row[]>();
  const timer = setTimeout(() => resolve([]), checkTimeoutMs);
  return Promise.race([answer.catch(() => []), tooLate]).finally(() => clearTimeout(timer));
}

/** How long a standby that did not answer is left alone. */
const skipMs = 10_000;
const checkEveryMs = 30_000;
const lagMsDefault = 60_000;
/** How long a standby that follows may take to replay what the primary has just written. */
const replayGraceMs = 1_000;
/** How long a check waits for an answer. What is not answered by then counts as not known, so that queries wait no longer. */
const checkTimeoutMs = 2_000;
