import { nowSql } from "./tables/count-table.ts";
import type { Database } from "./database.ts";
import { sql } from "./sql.ts";

/** A wall clock that all processes of a store agree on. */
export interface StoreClock {
  readonly wallMs: () => number;
  /** Measures the offset from the store's clock again. If the store does not answer, the old offset stays. */
  sync(): Promise<void>;
}

/**
 * Replicas on machines with different clocks must agree on when a key expires and when a daily budget begins, so that they use the
 * clock of PostgreSQL. Between two measurements the local monotonic clock is used, which a change of the system time does not
 * affect. All processes of a SQLite file are on one machine and use its clock.
 */
export function storeClock(
  database: Database,
  { nowMs, wallMs }: { readonly nowMs: () => number; readonly wallMs: () => number },
): StoreClock {
  if (database.engine === "sqlite") return { wallMs, sync: async () => {} };
  let offsetMs = wallMs() - nowMs();
  return {
    wallMs: () => Math.round(nowMs() + offsetMs),
    sync: async () => {
      const sentMs = nowMs();
      const rows = await database.all<{ now_ms: number }>(sql`select ${nowSql(database.engine, wallMs)} as now_ms`).catch(() => []);
      const roundTripMs = nowMs() - sentMs;
      if (rows[0] !== undefined && roundTripMs < roundTripMsMax) offsetMs = rows[0].now_ms - sentMs - roundTripMs / 2;
    },
  };
}

/** After a longer round trip the measured offset would be too inaccurate. */
const roundTripMsMax = 1_000;
