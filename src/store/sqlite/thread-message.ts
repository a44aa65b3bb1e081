import type { BudgetStorage, KeyStorage, StorageError } from "../../gateway/storage.ts";
import type { DistributedCounts } from "../../limits/distributed-counts.ts";
import type { Value } from "../sql.ts";

/** A request to the worker. It answers each one, in order, with a `ThreadReply`. */
export type ThreadRequest = { readonly id: number } & (ThreadStatement | ThreadTransaction);

export interface ThreadStatement {
  /** `read` is a query outside of a transaction: it sees what was committed before. */
  readonly action: "all" | "read" | "run" | "begin" | "commit" | "rollback" | "close";
  readonly texts: readonly string[];
  readonly values: readonly Value[];
}

/** A method of a table, with all of its statements, in one message. */
export interface ThreadTransaction {
  readonly action: "transact";
  readonly table: ThreadTable;
  readonly method: string;
  readonly given: readonly unknown[];
  /** The id of its audit entry. It is made where those of all other changes are made, so that they rise together; null if it has none. */
  readonly auditId: string | null;
}

/** The tables of the worker, with the methods that are one message each. */
export interface ThreadTables {
  readonly keys: Pick<KeyStorage, "create" | "change" | "rotate" | "revoke" | "used">;
  readonly budgets: Pick<BudgetStorage, "hold">;
  readonly counts: Omit<DistributedCounts, "releasesInPassing" | "close">;
}

export type ThreadTable = keyof ThreadTables;

export type ThreadReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: Pick<StorageError, "kind" | "message" | "isBusy"> };

/** The `workerData` of the worker. */
export interface ThreadOptions {
  readonly file: string;
  readonly busyMs: number;
  readonly readonly: boolean;
}
