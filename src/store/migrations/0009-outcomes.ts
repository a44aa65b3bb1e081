import type { SqlByEngine } from "../database.ts";
import { joinSql, nameSql, sql, type Sql } from "../sql.ts";

/**
 * How calls ended besides what they used: what failover, hedging and rescue did, answers that were cut or refused, times by model, and what
 * each channel used of each model of its upstream. Calls from before are not in it, nor those that earlier versions still store.
 */
export const outcomes: readonly (Sql | SqlByEngine)[] = [
  sql`alter table receipts add column marks text`,
  sql`alter table receipts add column cache_saved_nanos bigint`,

  // The owner is a key, a group, or `*` for the sums of all calls. Plain successes have no rows.
  ...sumsOf("outcome_hours", ["owner_id", "model", "channel", "operation"], outcomeColumns()),
  ...sumsOf("outcome_days", ["owner_id", "model", "channel", "operation"], outcomeColumns()),
  // The owner is a group or `*`. `kind`: until the first content, or until the end.
  ...sumsOf("model_time_hours", ["owner_id", "model", "kind"], bucketColumns()),
  ...sumsOf("model_time_days", ["owner_id", "model", "kind"], bucketColumns()),
  ...sumsOf("upstream_days", ["channel", "model"], upstreamColumns()),
];

function outcomeColumns(): readonly string[] {
  return [
    ...["truncated", "refused", "interrupted", "abandoned", "unknown", "rescued", "rescue_failed", "failed_over", "retried"],
    ...["hedges", "hedges_won", "extra_attempts", "extra_tokens", "failover_nanos", "hedge_nanos", "rescue_nanos", "cache_saved_nanos"],
  ];
}

function bucketColumns(): readonly string[] {
  const bounds = [10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000, 10000, 15000, 20000, 30000];
  return [...bounds, 60000, 120000, "more"].map((bound) => `ms_${bound}`);
}

function upstreamColumns(): readonly string[] {
  return [
    ...["attempts", "answered", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "audio_ms", "characters"],
    ...["nanos", "unpriced", "uncertain", "estimated"],
  ];
}

/** As for the other sums: SQLite keeps the rows in the order of the primary key, and those that change lie side by side. */
function sumsOf(table: string, names: readonly string[], figures: readonly string[]): readonly SqlByEngine[] {
  const own = nameSql(table);
  const columns = joinSql(
    [
      sql`at_ms bigint not null`,
      ...names.map((name) => sql`${nameSql(name)} text not null`),
      ...figures.map((figure) => sql`${nameSql(figure)} bigint not null`),
      sql`primary key (at_ms, ${joinSql(names.map(nameSql), sql`, `)})`,
    ],
    sql`, `,
  );
  const index = sql`create index ${nameSql(`${table}_of`)} on ${own} (${nameSql(names[0]!)}, at_ms)`;
  return [
    { sqlite: sql`create table ${own} (${columns}) without rowid`, postgres: sql`create table ${own} (${columns})` },
    { sqlite: index, postgres: index },
  ];
}
