import { StorageError } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import { sql, type Sql } from "../sql.ts";

export interface StandbyReadsOptions {
  /** A standby server, which follows the primary and cannot be written to. */
  readonly standby: Database;
  /** The same standby, with a short timeout. */
  readonly probe: Database;
  readonly primary: Database;
  readonly nowMs: () => number;
  /** Called when queries go to the primary because the standby does not answer, and with null when it answers again. */
  readonly notice: (reason: string | null) => void;
}

/**
 * Sends queries to a standby server, and to the primary while the standby cannot answer them: it is gone, hangs, or does not have the
 * schema yet. Everything else goes to the primary. A standby lags behind, so that only queries whose answer may be a moment old
 * belong here.
 */
export class StandbyReads implements Database {
  readonly engine = "postgres";
  private lostUntilMs = Number.NEGATIVE_INFINITY;
  private isLost = false;

  constructor(private readonly options: StandbyReadsOptions) {}

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    const { standby, probe, primary, nowMs } = this.options;
    if (nowMs() < this.lostUntilMs) return primary.all<Row>(query);
    let rows: Row[];
    try {
      // A long query gets a long timeout. A server that hangs is noticed before it.
      await probe.all(sql`select 1`);
      rows = await standby.all<Row>(query);
    } catch (error) {
      if (error instanceof StorageError && error.kind === "invalid") throw error;
      this.lost(error instanceof Error ? error.message : String(error));
      return primary.all<Row>(query);
    }
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

  private lost(reason: string): void {
    this.lostUntilMs = this.options.nowMs() + skipMs;
    if (!this.isLost) this.options.notice(reason);
    this.isLost = true;
  }
}

/** How long a standby that did not answer is left alone. */
const skipMs = 10_000;
