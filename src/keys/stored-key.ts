import { unlimited } from "../limits/limits.ts";
import type { Key } from "./key.ts";

/** A key as the store holds it: with its life, and with what it is opened by, of which only the end can be shown. */
export interface StoredKey extends Key {
  readonly owner: string | null;
  readonly note: string | null;
  readonly createdMs: number;
  readonly revokedMs: number | null;
  /** To the minute. */
  readonly lastUsedMs: number | null;
  /** The tokens that open it, newest first. After a rotation there are two for a while. */
  readonly tokens: readonly StoredToken[];
}

export interface StoredToken {
  readonly last4: string;
  readonly createdMs: number;
  /** The end of its overlap with the one that replaced it. */
  readonly expiresMs: number | null;
}

/** What somebody may say about a key when making it; the rest is ours. */
export type NewKey = Omit<Key, "id"> & Pick<StoredKey, "owner" | "note">;

/** A key of which nothing is said but its name: it may do everything, for ever. */
export const usualKey: Omit<NewKey, "name"> = {
  owner: null,
  note: null,
  models: null,
  operations: null,
  channels: null,
  expiresMs: null,
  limits: unlimited,
  splits: { audio: false, input: false },
};

/** What may be changed of a key that exists. */
export type KeyChange = Partial<NewKey>;

/** How a token is kept: its keyed hash, and enough of its end to tell it from others. */
export interface TokenMark {
  readonly digest: string;
  readonly last4: string;
}
