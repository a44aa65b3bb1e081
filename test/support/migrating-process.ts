import { migrate } from "../../src/store/migrate.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { storeFile } from "../../src/store/open.ts";
import { PostgresDatabase } from "../../src/store/postgres/postgres.ts";
import { sql } from "../../src/store/sql.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";

/** A process of the next version, for tests that start several of them, or kill one in the middle of a step. */
const [store = "", dataDir = "", what = ""] = process.argv.slice(2);
const database = store === "sqlite" ? new SqliteDatabase(storeFile(dataDir)) : new PostgresDatabase(store, { statementMs: 20_000 });

const statements = [
  sql`alter table settings add column label text`,
  sql`create table labels (id integer primary key, name text not null)`,
  sql`insert into labels (id, name) values (1, 'first')`,
];

/** After the last statement it tells that it has come so far, and goes no further. */
const hanging = Object.assign([...statements], {
  *[Symbol.iterator]() {
    yield* statements;
    process.stdout.write("in the middle\n");
    Bun.sleepSync(30_000);
  },
});

const last = { number: migrations.length + 1, name: "labels", reads: migrations.length };
const steps = [...migrations, { ...last, statements: what === "hang" ? hanging : statements }];
const taken = await migrate(database, { migrations: steps });
process.stdout.write(taken.map(({ number }) => number).join(","));
await database.close();
