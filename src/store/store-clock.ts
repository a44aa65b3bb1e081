import { nowSql } from "./tables/count-table.ts";
import type { Database } from "./database.ts";
import { sql } from "./sql.ts";

/** The time of day that all processes of a store agree on. */
export interface StoreClock {
  readonly wallMs: () => number;
  /** Compares it with the store's own again. Harmless where the store does not answer. */
  look(): Promise<void>;
}

/**
 * Replicas whose machines tell different times must still agree on when a key expires and when a day's budget begins: PostgreSQL
 * tells them. In between, our own steady clock carries on, so that a machine whose clock is set does not matter either. The
 * processes of an SQLite file are on one machine and go by its clock.
 */
export function storeClock(
  database: Database,
  { nowMs, wallMs }: { readonly nowMs: () => number; readonly wallMs: () => number },
): StoreClock {
  if (database.engine === "sqlite") return { wallMs, look: async () => {} };
  let aheadMs = wallMs() - nowMs();
  return {
    wallMs: () => Math.round(nowMs() + aheadMs),
    look: async () => {
      const askedMs = nowMs();
      const rows = await database.all<{ now_ms: number }>(sql`select ${nowSql(database.engine, wallMs)} as now_ms`).catch(() => []);
      const tookMs = nowMs() - askedMs;
      if (rows[0] !== undefined && tookMs < tookMsMax) aheadMs = rows[0].now_ms - askedMs - tookMs / 2;
    },
  };
}

/** After a longer way nobody knows when it was that time. */
const tookMsMax = 1_000;
