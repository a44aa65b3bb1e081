import type { Limits } from "../limits/limits.ts";
import type { Operation } from "../operations/operation.ts";
import { isGroupId, type GroupChain } from "./group.ts";

export interface Splits {
  readonly audio: boolean;
  readonly input: boolean;
}

/** A client's key: what it may do. The secret is not part of it. */
export interface Key {
  readonly id: string;
  readonly name: string;
  /** Patterns with `*`; `null` means every model. */
  readonly models: readonly string[] | null;
  /** `null` means every operation. */
  readonly operations: readonly Operation[] | null;
  /** Names or tags of channels, patterns with `*`; `null` means every channel. */
  readonly channels: readonly string[] | null;
  /** Wall-clock milliseconds, or null for a key without end. */
  readonly expiresMs: number | null;
  /** Recordings and texts that are too large for one request are split, served in parts and joined. */
  readonly splits: Splits;
  readonly limits: Limits;
  /** The id of its group. */
  readonly group: string | null;
  /** Of a token of an issuer: the id of the key, of the store or the file, that it has its permissions from, and ends with. */
  readonly basis?: string;
  /** Of such a token: it is in the group of that key, and not in one that its rule names. */
  readonly inGroupOfBasis?: true;
  /** Its group and those above it, looked up when the key is used. The limits then include their defaults. */
  readonly chain?: GroupChain;
}

/** How the ids of keys in the configuration begin. Names in the store must not begin so. */
export const fileKeyPrefix = "file:";

/** How the ids of the subjects of token issuers begin. */
export const subjectPrefix = "jwt:";

/** The owner of the sums of all calls. */
export const everybody = "*";

/**
 * Whether a new key of the store may have this id. No other owner of limits has one like it, and it is one word: owners are stored with spaces
 * between them, and the ids of limits are made of an owner and other words.
 */
export function isNewKeyId(id: string): boolean {
  return newKeyId.test(id) && !isGroupId(id);
}

const newKeyId = /^[A-Za-z0-9._-]{1,200}$/;
