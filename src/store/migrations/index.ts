import type { Database } from "../database.ts";
import type { Sql } from "../sql.ts";
import { beginning } from "./0001-beginning.ts";
import { sumsByTime } from "./0002-sums-by-time.ts";
import { receiptWarnings } from "./0004-receipt-warnings.ts";
import { wantedHolds } from "./0003-wanted-holds.ts";

/** One step of the schema. A step that was released never changes again; the next one mends it. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  /**
   * The oldest program that still works on the result, by the number of the last step that it knows. During a rolling
   * upgrade old processes go on, and start again, on the new schema: a step that only adds says the number before its own
   * or less, one that takes something away says its own.
   */
  readonly reads: number;
  readonly statements: readonly (Sql | SqlByEngine)[];
}

/** For what the engines do not say in the same way. */
export type SqlByEngine = Readonly<Record<Database["engine"], Sql>>;

/** In order and without a gap. */
export const migrations: readonly Migration[] = [
  { number: 1, name: "beginning", reads: 1, statements: beginning },
  { number: 2, name: "sums by time", reads: 1, statements: sumsByTime },
  { number: 3, name: "wanted holds", reads: 1, statements: wantedHolds },
  { number: 4, name: "receipt warnings", reads: 1, statements: receiptWarnings },
];
