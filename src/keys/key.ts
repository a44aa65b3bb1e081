import type { Operation } from "../operations/operation.ts";

/** A client's key as the gateway knows it: what it may do, and never the secret itself. */
export interface Key {
  readonly id: string;
  readonly name: string;
  /** Patterns with `*`; `null` means every model. */
  readonly models: readonly string[] | null;
  /** `null` means every operation. */
  readonly operations: readonly Operation[] | null;
  /** Wall-clock milliseconds, or null for a key without end. */
  readonly expiresMs: number | null;
}
