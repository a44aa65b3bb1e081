import type { StorageTrouble } from "../../gateway/storage.ts";
import type { Value } from "../sql.ts";

/** What the thread is asked, in order, and what it answers to each. */
export interface ThreadRequest {
  readonly id: number;
  readonly action: "all" | "run" | "begin" | "commit" | "rollback" | "close";
  readonly texts: readonly string[];
  readonly values: readonly Value[];
}

export type ThreadReply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly trouble: { readonly kind: StorageTrouble["kind"]; readonly message: string } };

/** What the thread is started with. */
export interface ThreadOptions {
  readonly file: string;
  readonly busyMs: number;
  readonly readonly: boolean;
}
