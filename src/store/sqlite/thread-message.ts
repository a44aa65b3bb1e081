import type { StorageError } from "../../gateway/storage.ts";
import type { DistributedCounts } from "../../limits/distributed-counts.ts";
import type { Value } from "../sql.ts";

/** A request to the worker. It answers each one, in order, with a `ThreadReply`. */
export type ThreadRequest = { readonly id: number } & (ThreadStatement | ThreadCount);

export interface ThreadStatement {
  readonly action: "all" | "run" | "begin" | "commit" | "rollback" | "close";
  readonly texts: readonly string[];
  readonly values: readonly Value[];
}

/** A call of the shared counts, with all of its statements. */
export interface ThreadCount {
  readonly action: "count";
  readonly method: CountMethod;
  readonly arguments: readonly unknown[];
}

export type CountMethod = Exclude<keyof DistributedCounts, "releasesInPassing" | "close">;

export type ThreadReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: { readonly kind: StorageError["kind"]; readonly message: string } };

/** The `workerData` of the worker. */
export interface ThreadOptions {
  readonly file: string;
  readonly busyMs: number;
  readonly readonly: boolean;
}
