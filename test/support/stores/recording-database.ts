import type { Database } from "../../../src/store/database.ts";
import type { Sql, Value } from "../../../src/store/sql.ts";

/** A statement as a process made it, with `?` for each of its values. */
export type RecordedStep =
  | { readonly all: string; readonly values: readonly Value[] }
  | { readonly run: string; readonly values: readonly Value[]; readonly changed: number }
  | { readonly transaction: readonly RecordedStep[] };

/** Writes down every statement that goes through it. Statements of a transaction that was repeated are written down once. */
export class RecordingDatabase implements Database {
  readonly engine: Database["engine"];
  readonly runEach?: NonNullable<Database["runEach"]>;

  constructor(
    private readonly inner: Database,
    readonly steps: RecordedStep[] = [],
  ) {
    this.engine = inner.engine;
    const runEach = inner.runEach?.bind(inner);
    if (runEach === undefined) return;
    this.runEach = async (query, rows) => {
      const changed = await runEach(query, rows);
      for (const [at, values] of rows.entries()) this.steps.push({ run: textOf(query), values, changed: changed[at] ?? 0 });
      return changed;
    };
  }

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    this.steps.push({ all: textOf(query), values: query.values });
    return this.inner.all<Row>(query);
  }

  async run(query: Sql): Promise<number> {
    const changed = await this.inner.run(query);
    this.steps.push({ run: textOf(query), values: query.values, changed });
    return changed;
  }

  async transaction<T>(work: (database: Database) => Promise<T>): Promise<T> {
    let inside: RecordingDatabase | null = null;
    const result = await this.inner.transaction(async (transaction) => {
      inside = new RecordingDatabase(transaction);
      return work(inside);
    });
    this.steps.push({ transaction: (inside as RecordingDatabase | null)?.steps ?? [] });
    return result;
  }

  async close(): Promise<void> {
    await this.inner.close();
  }
}

function textOf({ texts }: Sql): string {
  if (texts.some((text) => text.includes("?"))) throw new Error(`A statement has a question mark of its own: ${texts.join("…")}`);
  return texts
    .join("?")
    .replaceAll(/\s*\n\s*/g, " ")
    .trim();
}
