import type { Database } from "../../../src/store/database.ts";
import { nameSql, sql, type Value } from "../../../src/store/sql.ts";
import type { RecordedStep } from "./recording-database.ts";

/** A store as text: the schema in the statements that made it, then every row of every table. */
export async function dumpOf(database: Database, migrating: readonly RecordedStep[]): Promise<string> {
  const schema = migrating
    .flatMap((step) => ("transaction" in step ? step.transaction : [step]))
    .flatMap((step) => ("run" in step && /^(create|alter|drop) /.test(step.run) ? [step.run] : []));
  const rows: string[] = [];
  for (const table of await tablesOf(database)) rows.push(...(await insertsOf(database, table)));
  return `${[...new Set(schema), ...rows].join(";\n")};\n`;
}

async function tablesOf(database: Database): Promise<readonly string[]> {
  const tables =
    database.engine === "sqlite"
      ? sql`select name from sqlite_schema where type = 'table' and name not like 'sqlite%'`
      : // The rows of a partition are those of its table.
        sql`select relname as name from pg_class
          where relkind in ('r', 'p') and not relispartition and relnamespace = current_schema()::regnamespace`;
  return (await database.all<{ readonly name: string }>(tables)).map(({ name }) => name).toSorted();
}

async function insertsOf(database: Database, table: string): Promise<readonly string[]> {
  const rows = await database.all<Readonly<Record<string, Value>>>(sql`select * from ${nameSql(table)}`);
  return rows
    .map((row) => `insert into ${table} (${Object.keys(row).join(", ")}) values (${Object.values(row).map(literal).join(", ")})`)
    .toSorted();
}

function literal(value: Value): string {
  if (value === null) return "null";
  return typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);
}
