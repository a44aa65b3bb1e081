import type { BudgetHoldRequest, KeyStorage, StorageError } from "../../gateway/storage.ts";
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

/** Work with all of its statements, in one message. */
export type ThreadTransaction = ThreadCount | ThreadHold | ThreadKeyChange;

/** A change of keys. */
export interface ThreadKeyChange {
  readonly action: "keys";
  readonly method: KeyChangeMethod;
  readonly arguments: readonly unknown[];
}

export type KeyChangeMethod = keyof Pick<KeyStorage, "create" | "change" | "rotate" | "revoke" | "used">;

/** A request for money of a budget. */
export interface ThreadHold {
  readonly action: "hold";
  readonly request: BudgetHoldRequest;
}

/** A call of the shared counts. */
export interface ThreadCount {
  readonly action: "count";
  readonly method: CountMethod;
  readonly arguments: readonly unknown[];
}

export type CountMethod = Exclude<keyof DistributedCounts, "releasesInPassing" | "close">;

export type ThreadReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: Pick<StorageError, "kind" | "message" | "isBusy"> };

/** The `workerData` of the worker. */
export interface ThreadOptions {
  readonly file: string;
  readonly busyMs: number;
  readonly readonly: boolean;
}
