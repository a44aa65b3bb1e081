import type { Database } from "../../../src/store/database.ts";
import { PostgresDatabase } from "../../../src/store/postgres/postgres.ts";
import { Sql, type Value } from "../../../src/store/sql.ts";
import { ThreadDatabase } from "../../../src/store/sqlite/thread-database.ts";
import { storeFile } from "../../../src/store/open.ts";
import { eventually } from "../eventually.ts";
import type { RecordedStep } from "./recording-database.ts";
import { roundMark } from "./sample-receipts.ts";
import type { StoreFixture, StoreLocation } from "./store-fixture.ts";

/**
 * A process of an older version that goes on while the store is upgraded: it makes that version's statements again and again, over
 * connections of its own, each round with new ids. What goes wrong is kept for `stop`.
 */
export class OldProcess {
  /** How many rounds were finished. */
  rounds = 0;
  private stopped = false;
  private readonly running: Promise<void>;
  private readonly failures: string[] = [];

  constructor(
    private readonly fixture: StoreFixture,
    location: StoreLocation,
  ) {
    const database =
      fixture.engine === "sqlite"
        ? new ThreadDatabase(storeFile(location.dataDir), { busyMs: 60_000 })
        : new PostgresDatabase(location.store, { statementMs: 60_000 });
    this.running = this.run(database);
  }

  /** Resolves after as many more rounds, or with the first failure. */
  async goOn(rounds: number): Promise<void> {
    const until = this.rounds + rounds;
    await eventually("the old process goes on", () => this.rounds >= until || this.failures.length > 0, 60_000);
  }

  /** What went wrong. */
  async stop(): Promise<readonly string[]> {
    this.stopped = true;
    await this.running;
    return this.failures;
  }

  private async run(database: Database): Promise<void> {
    while (!this.stopped && this.failures.length === 0) {
      for (const { work, steps } of this.fixture.process) {
        await this.replay(database, steps).catch((error: unknown) => this.failures.push(`${work}: ${String(error)}`));
        // As in a real process, others have their turn.
        await Bun.sleep(1);
      }
      this.rounds += 1;
    }
    await database.close();
  }

  private async replay(database: Database, steps: readonly RecordedStep[]): Promise<void> {
    for (const step of steps) {
      if ("transaction" in step) await database.transaction(async (inside) => this.replay(inside, step.transaction));
      else if ("all" in step) await database.all(this.query(step.all, step.values));
      else {
        const changed = await database.run(this.query(step.run, step.values));
        if (step.run.startsWith("insert") && changed !== step.changed) {
          throw new Error(`${changed} rows instead of ${step.changed}: ${step.run}`);
        }
      }
    }
  }

  private query(text: string, values: readonly Value[]): Sql {
    // The first round is not 0, which ids of the fixture have in the same place.
    const round = (this.rounds + 1).toString(16).padStart(roundMark.length, "0");
    return new Sql(
      text.split("?"),
      values.map((value) => (typeof value === "string" ? value.replaceAll(roundMark, round) : value)),
    );
  }
}
