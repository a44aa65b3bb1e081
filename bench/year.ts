import { Database as Sqlite } from "bun:sqlite";
import { SQL } from "bun";
import { openDatabase, storeFile } from "../src/store/open.ts";
import { outcomeFigures } from "../src/usage/call-outcome.ts";
import { firstContentBoundsMs } from "../src/usage/first-content.ts";

/**
 * A year of traffic, written straight into the tables, because calls would take days: 200 keys of which a few do most, three of twenty
 * models for each key, five channels of which a second one answers each eighth call, each fourth request named by its client, one in a hundred
 * failed, in the twelve busy hours of each day. The first one
 * calls at the beginning of the year, and every figure follows from a call's number.
 */
export interface Year {
  readonly calls: number;
  /** Single receipts are forgotten after a while: so many of the newest are there. Sums are of all. */
  readonly receipts: number;
  readonly sinceMs: number;
  readonly untilMs: number;
}

export interface YearPlace {
  /** `sqlite`, or the address of an empty PostgreSQL database. */
  readonly store: string;
  readonly dataDir: string;
}

export const yearDays = 365;
export const keyOfYear = (index: number): string => `key-${String(index).padStart(3, "0")}`;

export function yearOf(calls: number, receipts: number): Year {
  const untilMs = Math.floor(Date.now() / dayMs) * dayMs;
  return { calls, receipts, sinceMs: untilMs - yearDays * dayMs, untilMs };
}

export async function writeYear(year: Year, place: YearPlace): Promise<void> {
  await (await openDatabase(place)).close();
  const engine = place.store === "sqlite" ? sqliteWriter(place.dataDir) : postgresWriter(place.store);
  try {
    // An index that is made when all rows are there takes a fraction of the time of one that grows with them.
    const indexes = await engine.indexes();
    for (const { name } of indexes) await engine.run(`drop index ${name}`);
    for (let month = 0; month < 12; month += 1) {
      // Whole days, because each sum is made at once.
      const firstOf = (part: number) => Math.ceil((Math.floor((yearDays * part) / 12) * year.calls) / yearDays);
      const [from, to] = [firstOf(month), firstOf(month + 1)];
      await engine.run(`insert into usage_hours (${sumColumns}, placed, minutes_early, minutes_late)
        select key_id, started_ms - started_ms % ${hourMs}, model, channel, operation, ${sums}, count(*), ${minutes(0)}, ${minutes(30)}
        from (${callsSql(engine, year, from, to)}) as calls group by 1, 2, 3, 4, 5 order by 2, 1, 3, 4, 5`);
    }
    await engine.run(`insert into usage_days (${sumColumns}) select key_id, at_ms - at_ms % ${dayMs}, model, channel, operation, ${sumsOfHours}
      from usage_hours group by 1, 2, 3, 4, 5 order by 2, 1, 3, 4, 5`);
    for (let month = 0; month < 12; month += 1) {
      const [from, to] = portion(0, year.calls, month);
      await engine.run(`insert into first_content_hours select started_ms - started_ms % ${hourMs}, operation, ${firstContentSums}
        from (${callsSql(engine, year, from, to)}) as calls where status = 200 group by 1, 2
        on conflict (at_ms, operation) do update set ${firstContentNames.map((name) => `${name} = first_content_hours.${name} + excluded.${name}`).join(", ")}`);
    }
    await engine.run(`insert into outcome_hours select at_ms, key_id, model, channel, operation, ${outcomeSums} from usage_hours
      where failed > 0 or cached_tokens > 0 group by 1, 2, 3, 4, 5`);
    await engine.run(
      `insert into outcome_hours select at_ms, '*', model, channel, operation, ${outcomeSums} from usage_hours group by 1, 2, 3, 4, 5`,
    );
    await engine.run(`insert into outcome_days select at_ms - at_ms % ${dayMs}, owner_id, model, channel, operation,
      ${outcomeFigures.map((figure) => `sum(${figure})`).join(", ")} from outcome_hours group by 1, 2, 3, 4, 5`);
    for (const unit of ["hours", "days"]) {
      // As fast as each other: only the number of rows matters.
      await engine.run(`insert into model_time_${unit} select at_ms, '*', model, kind, ${firstContentNames.map(() => "sum(calls)").join(", ")}
        from usage_${unit}, (select 'first' as kind union all select 'took') as kinds group by 1, 3, 4`);
    }
    for (let part = 0; part < 12; part += 1) {
      const [from, to] = portion(year.calls - year.receipts, year.calls, part);
      await engine.run(`insert into receipts (id, request_id, key_id, operation, model, channel, upstream_model, stream, status, state, error,
          started_ms, took_ms, first_content_ms, prompt_tokens, cached_tokens, completion_tokens, audio_ms, characters, generated_tokens,
          billed_nanos, hedge_waste_nanos, cost_uncertain, estimated, partial, attempt_after_ms, attempt_took_ms)
        select id, request_id, key_id, operation, model, channel, model, 1, status, state, error, started_ms, took_ms, took_ms / 4,
          prompt_tokens, cached_tokens, completion_tokens, audio_ms, characters, completion_tokens, nanos, 0, 0, 0, 0,
          case when status = 200 then 0 end, case when status = 200 then took_ms end
        from (${callsSql(engine, year, from, to)}) as calls`);
      // Of a call that went well its receipt tells all.
      await engine.run(`insert into attempts (receipt_id, number, channel, model, after_ms, took_ms, outcome, status, error, blame, hedge,
          prompt_tokens, cached_tokens, completion_tokens, audio_ms, characters, nanos, cost_uncertain, estimated)
        select id, 1, channel, model, 0, took_ms, 'failed', status, error, 'channel', 0, prompt_tokens, cached_tokens, completion_tokens,
          audio_ms, characters, nanos, 0, 0
        from (${callsSql(engine, year, from, to)}) as calls where status <> 200`);
    }
    for (const { definition } of indexes) await engine.run(definition);
    await engine.run("analyze");
  } finally {
    await engine.close();
  }
}

/** Failed calls stand for all that is counted rarely, and cached tokens for what nearly every call has. */
const outcomeSums = outcomeFigures
  .map((figure) => (figure === "cache_saved_nanos" ? "sum(cached_tokens)" : figure === "truncated" ? "sum(failed)" : "0"))
  .join(", ");

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const tables = "('receipts', 'attempts', 'usage_hours', 'usage_days')";

const sumColumns = `key_id, at_ms, model, channel, operation, calls, failed, prompt_tokens, cached_tokens, completion_tokens,
  reasoning_tokens, audio_ms, characters, nanos, unpriced, uncertain, estimated`;

/** A bit for each of thirty minutes in which there were calls. */
function minutes(from: number): string {
  const minute = `cast((started_ms % ${hourMs}) / 60000 as integer) - ${from}`;
  return `coalesce(sum(distinct case when ${minute} between 0 and 29 then 1 << (${minute}) end), 0)`;
}

const firstContentNames = [...firstContentBoundsMs.map((ms) => `ms_${ms}`), "ms_more"];
const firstContentSums = [...firstContentBoundsMs, null]
  .map((ms, at) => {
    const above = at === 0 ? "" : `took_ms / 4 > ${firstContentBoundsMs[at - 1]}`;
    const within = ms === null ? "" : `took_ms / 4 <= ${ms}`;
    return `sum(case when ${[above, within].filter((text) => text !== "").join(" and ")} then 1 else 0 end)`;
  })
  .join(", ");

const summed = ["prompt_tokens", "cached_tokens", "completion_tokens", "audio_ms", "characters", "nanos"] as const;
const [promptSum, cachedSum, completionSum, audioSum, charactersSum, nanosSum] = summed.map((column) => `coalesce(sum(${column}), 0)`);
const sums = `count(*), sum(case when status = 200 then 0 else 1 end), ${promptSum}, ${cachedSum}, ${completionSum}, 0, ${audioSum},
  ${charactersSum}, ${nanosSum}, 0, 0, 0`;
const sumsOfHours = `sum(calls), sum(failed), ${promptSum}, ${cachedSum}, ${completionSum}, 0, ${audioSum}, ${charactersSum}, ${nanosSum}, 0, 0, 0`;

/** Calls by their numbers, from one up to but without another. Only what both engines read alike, apart from what they are given. */
function callsSql(engine: Writer, { calls, sinceMs }: Year, from: number, to: number): string {
  const startedMs = `(${sinceMs} + (i * ${yearDays} / ${calls}) * ${dayMs} + ${8 * hourMs} + (i * ${yearDays} % ${calls}) * ${12 * hourMs} / ${calls})`;
  const time = engine.hex("started_ms", 12);
  const failed = "(h / 7) % 100 = 0";
  return `
    select i, started_ms, key_id, model, channel, operation, prompt_tokens, cached_tokens, completion_tokens, audio_ms, characters,
      prompt_tokens * 250 + completion_tokens * 2000 + coalesce(audio_ms, 0) * 100 + coalesce(characters, 0) * 15000 as nanos,
      substr(${time}, 1, 8) || '-' || substr(${time}, 9, 4) || '-7000-8000-' || ${engine.hex("i", 12)} as id,
      case when h % 4 = 0 then 'client-' || ${engine.hex("h", 8)} || ${engine.hex("i", 16)} end as request_id,
      300 + h % 9000 as took_ms, case when ${failed} then 502 else 200 end as status,
      case when ${failed} then 'failed' else 'complete' end as state, case when ${failed} then 'upstream_error' else null end as error
    from (
      select i, h, started_ms, 'key-' || ${engine.digits("key_number", 3)} as key_id, 'model-' || ${engine.digits("model_number", 2)} as model,
        'channel-' || ((model_number + case when (h / 31) % 8 = 0 then 1 else 0 end) % 5) as channel,
        case model_number when 18 then 'transcription' when 19 then 'speech' else 'chat' end as operation,
        case when model_number < 18 then 200 + (h / 3) % 3000 else 0 end as prompt_tokens,
        case when model_number < 18 and h % 3 = 0 then 128 else 0 end as cached_tokens,
        case when model_number < 18 then 20 + (h / 11) % 600 else 0 end as completion_tokens,
        case when model_number = 18 then 1000 + h % 60000 end as audio_ms, case when model_number = 19 then 20 + h % 2000 end as characters
      from (
        select i, h, ${startedMs} as started_ms, key_number, (key_number * 7 + (h / 5) % 4 % 3) % 20 as model_number
        from (
          select i, h, ((h / 4096) % 1024) * ((h / 4096) % 1024) * 200 / 1048576 as key_number
          from (select i, (i * 2654435761) % 4294967296 as h from ${engine.numbers(from, to)} ${engine.fence}) as drawn
          ${engine.fence}
        ) as keyed
        ${engine.fence}
      ) as timed
      ${engine.fence}
    ) as named`;
}

function portion(from: number, to: number, twelfth: number): readonly [number, number] {
  const at = (part: number) => from + Math.floor(((to - from) * part) / 12);
  return [at(twelfth), at(twelfth + 1)];
}

interface Index {
  readonly name: string;
  readonly definition: string;
}

/** What the two engines do not have in common. */
interface Writer {
  run(text: string): Promise<void>;
  /** Those that its tables have beside their keys. */
  indexes(): Promise<readonly Index[]>;
  close(): Promise<void>;
  numbers(from: number, to: number): string;
  /** Ends an inner query that is to be answered before the one around it: else its expressions are put in, and worked out, wherever they are named. */
  readonly fence: string;
  hex(of: string, digits: number): string;
  digits(of: string, digits: number): string;
}

function sqliteWriter(dataDir: string): Writer {
  const database = new Sqlite(storeFile(dataDir));
  for (const pragma of ["synchronous = off", "cache_size = -500000", "temp_store = memory"]) database.run(`pragma ${pragma}`);
  return {
    run: async (text) => void database.run(text),
    indexes: async () =>
      database
        .query<Index, []>(
          `select name, sql as definition from sqlite_master where type = 'index' and sql is not null and tbl_name in ${tables}`,
        )
        .all(),
    close: async () => {
      database.run("pragma wal_checkpoint(truncate)");
      database.close();
    },
    numbers: (from, to) =>
      `(with recursive n(i) as (select ${from} where ${from} < ${to} union all select i + 1 from n where i + 1 < ${to}) select i from n)`,
    fence: "limit -1",
    hex: (of, digits) => `printf('%0${digits}x', ${of})`,
    digits: (of, digits) => `printf('%0${digits}d', ${of})`,
  };
}

function postgresWriter(url: string): Writer {
  const database = new SQL({ url, max: 1 });
  return {
    run: async (text) => void (await database.unsafe(text)),
    indexes: async () =>
      database.unsafe<Index[]>(
        `select indexname as name, indexdef as definition from pg_indexes where tablename in ${tables} and indexname not like '%_pkey'`,
      ),
    close: async () => database.close({ timeout: 0 }),
    numbers: (from, to) => `(select i from generate_series(${from}::bigint, ${to - 1}) as n(i)) as n`,
    fence: "offset 0",
    hex: (of, digits) => `lpad(to_hex(${of}), ${digits}, '0')`,
    digits: (of, digits) => `lpad((${of})::text, ${digits}, '0')`,
  };
}
