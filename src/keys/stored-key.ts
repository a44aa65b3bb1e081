import { unlimited } from "../limits/limits.ts";
import type { Key, Splits } from "./key.ts";

/** A key in the store, with its history and its tokens. Only the last characters of a token can be shown. */
export interface StoredKey extends Key {
  readonly owner: string | null;
  readonly note: string | null;
  readonly createdMs: number;
  readonly revokedMs: number | null;
  /** To the minute. */
  readonly lastUsedMs: number | null;
  /** Its tokens, newest first. After a rotation there are two for a while. */
  readonly tokens: readonly StoredToken[];
}

export interface StoredToken {
  readonly last4: string;
  readonly createdMs: number;
  /** When it stops working after it was replaced. */
  readonly expiresMs: number | null;
}

/** What is given when a key is created; the gateway adds the rest. */
export type NewKey = Omit<Key, "id" | "chain"> & Pick<StoredKey, "owner" | "note">;

/** The defaults of a new key: it may do everything, and does not expire. */
export const defaultKey: Omit<NewKey, "name"> = {
  owner: null,
  note: null,
  models: null,
  operations: null,
  channels: null,
  expiresMs: null,
  limits: unlimited,
  group: null,
  splits: { audio: false, input: false },
};

/** What can be changed of an existing key. Each of the split settings can be changed alone. */
export interface KeyChange extends Partial<Omit<NewKey, "splits">> {
  readonly splits?: Partial<Splits>;
}

/** What is stored of a token: its keyed hash, and its last characters to tell it from others. */
export interface HashedToken {
  readonly digest: string;
  readonly last4: string;
}

/** In place of the last characters, where only the hash of a token is known. */
export const unknownLast4 = "****";
