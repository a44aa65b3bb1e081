import { migrate } from "../../src/store/migrate.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { storeFile } from "../../src/store/open.ts";
import { PostgresDatabase } from "../../src/store/postgres/postgres.ts";
import { sql } from "../../src/store/sql.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";

/**
 * A process of the next version, for tests that start several of them, or kill one in the middle of a step: `hang` stops in the
 * next version's own step, `hang-at-2` in the second migration of this one.
 */
const [store = "", dataDir = "", what = ""] = process.argv.slice(2);
const database = store === "sqlite" ? new SqliteDatabase(storeFile(dataDir)) : new PostgresDatabase(store, { statementMs: 20_000 });

const statements = [
  sql`alter table settings add column label text`,
  sql`create table labels (id integer primary key, name text not null)`,
  sql`insert into labels (id, name) values (1, 'first')`,
];

/** After the last statement it tells that it has come so far, and goes no further. */
function hanging<T>(all: readonly T[]): readonly T[] {
  return Object.assign([...all], {
    *[Symbol.iterator]() {
      yield* all;
      process.stdout.write("in the middle\n");
      Bun.sleepSync(60_000);
    },
  });
}

const last = { number: migrations.length + 1, name: "labels", reads: migrations.length, statements };
const hangsAt = what === "hang" ? last.number : Number(/^hang-at-(\d+)$/.exec(what)?.[1] ?? 0);
const steps = [...migrations, last].map((step) => (step.number === hangsAt ? { ...step, statements: hanging(step.statements) } : step));
const taken = await migrate(database, { migrations: steps });
process.stdout.write(taken.map(({ number }) => number).join(","));
await database.close();
