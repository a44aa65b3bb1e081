import type { StorageError } from "../../gateway/storage.ts";
import type { Value } from "../sql.ts";

/** A request to the worker. It answers each one, in order, with a `ThreadReply`. */
export interface ThreadRequest {
  readonly id: number;
  readonly action: "all" | "run" | "begin" | "commit" | "rollback" | "close";
  readonly texts: readonly string[];
  readonly values: readonly Value[];
}

export type ThreadReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: { readonly kind: StorageError["kind"]; readonly message: string } };

/** The `workerData` of the worker. */
export interface ThreadOptions {
  readonly file: string;
  readonly busyMs: number;
  readonly readonly: boolean;
}
