import type { SqlByEngine } from "../database.ts";
import { joinSql, nameSql, sql, type Sql } from "../sql.ts";

/**
 * What all keys used together, as the sums of the owner `*`, so that a question about everybody reads a few rows and not
 * those of every key. They are added up from the sums of the keys. From then on whoever adds to the sums of a key adds to these, and
 * says so in `in_total`: calls that an earlier version adds, which knows nothing of it, are added by a trigger.
 */
export const sumsOfEverybody: readonly (Sql | SqlByEngine)[] = [
  // Until the end nobody adds to the sums of keys. They can be read; only the new columns at the end wait for readers for a moment.
  onlyPostgres(sql`lock table usage_hours, usage_days in share row exclusive mode`),
  ...["hours", "days"].map(
    (length) => sql`
    insert into ${nameSql(`owner_${length}`)} (owner_id, at_ms, model, channel, tags, operation, ${figures((name) => name)})
    select '*', at_ms, model, channel, '', operation, ${figures((name) => sql`sum(${name})`)} from ${nameSql(`usage_${length}`)}
    group by at_ms, model, channel, operation order by at_ms, model, channel, operation`,
  ),
  ...["usage_hours", "usage_days"].map((table) => sql`alter table ${nameSql(table)} add column in_total bigint not null default 0`),
  ...["hours", "days"].flatMap(triggersOf),
];

function triggersOf(length: string): readonly SqlByEngine[] {
  const table = nameSql(`usage_${length}`);
  const total = nameSql(`owner_${length}`);
  const adding = (figure: (name: Sql) => Sql): Sql => sql`
    insert into ${total} (owner_id, at_ms, model, channel, tags, operation, ${figures((name) => name)})
    values ('*', new.at_ms, new.model, new.channel, '', new.operation, ${figures(figure)})
    on conflict (owner_id, at_ms, model, channel, tags, operation)
    do update set ${figures((name) => sql`${name} = ${total}.${name} + excluded.${name}`)}`;
  return (
    [
      ["insert", sql`new.calls <> new.in_total`, adding((name) => sql`new.${name}`)],
      ["update", sql`new.calls - old.calls <> new.in_total - old.in_total`, adding((name) => sql`new.${name} - old.${name}`)],
    ] as const
  ).flatMap(([event, forgotten, add]) => {
    const name = nameSql(`usage_${length}_${event}`);
    const head = sql`create trigger ${name} after ${nameSql(event)} on ${table} for each row when (${forgotten})`;
    return [
      onlyPostgres(sql`create function ${name}() returns trigger language plpgsql as $body$ begin ${add}; return null; end $body$`),
      { sqlite: sql`${head} begin ${add}; end`, postgres: sql`${head} execute function ${name}()` },
    ];
  });
}

function figures(shown: (name: Sql) => Sql): Sql {
  const names = ["calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"];
  const others = ["audio_ms", "characters", "nanos", "unpriced", "uncertain", "estimated"];
  return joinSql(
    [...names, ...others].map((name) => shown(nameSql(name))),
    sql`, `,
  );
}

function onlyPostgres(statement: Sql): SqlByEngine {
  return { sqlite: sql`select 1`, postgres: statement };
}
