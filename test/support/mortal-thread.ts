import type { Sql } from "../../src/store/sql.ts";
import { SqliteConnection } from "../../src/store/sqlite/sqlite-connection.ts";

/** The store's thread, which dies of the statement `select 'die'`, and some time after `select 'die soon'`. */
class Mortal extends SqliteConnection {
  override run(query: Sql): number {
    if (query.texts[0] === "select 'die'") process.exit(3);
    if (query.texts[0] === "select 'die soon'") setTimeout(() => process.exit(3), 1);
    return super.run(query);
  }
}

const open = SqliteConnection.open.bind(SqliteConnection);
SqliteConnection.open = (...given) => Object.setPrototypeOf(open(...given), Mortal.prototype) as SqliteConnection;
await import("../../src/store/sqlite/database-thread.ts");
