import { StorageError } from "../../gateway/storage.ts";
import { newestStep, pending } from "../migrate.ts";
import { migrations } from "../migrations/index.ts";
import { sql } from "../sql.ts";
import { ThreadDatabase } from "../sqlite/thread-database.ts";

/**
 * Rejects unless the file is an undamaged store that this version can use. Reads all of it, in a worker. `shownAs` is the file name
 * for messages.
 */
export async function checkStore(file: string, shownAs: string = file): Promise<void> {
  const database = new ThreadDatabase(file, { readonly: true });
  try {
    const findings = await database.all<{ readonly integrity_check: string }>(sql`pragma integrity_check(3)`);
    if (findings.length !== 1 || findings[0]?.integrity_check !== "ok") {
      const found = findings.map(({ integrity_check }) => integrity_check).join("; ");
      throw new StorageError("damaged", `${shownAs} is damaged: ${found}. Use another backup.`);
    }
    if ((await newestStep(database)) === 0) throw new StorageError("damaged", `${shownAs} is a database, but not a store of Sluice.`);
    await pending(database, migrations, `The store in ${shownAs}`);
  } finally {
    await database.close();
  }
}
