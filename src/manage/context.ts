import type { Storage } from "../gateway/storage.ts";
import type { Key } from "../keys/key.ts";
import type { Price } from "../usage/price.ts";

/** What management actions need from the rest, handed in by whoever builds the parts. */
export interface ManageContext {
  /** For changes, and for looking up one thing. */
  readonly storage: Storage;
  /** The same store for long questions: lists, usage, receipts and the audit trail. No call waits behind them. */
  readonly reports: Storage;
  /** Milliseconds since 1970. */
  readonly wallMs: () => number;
  /** The keyed hash under which the store knows a token: HMAC-SHA-256 with the pepper, in hex. */
  readonly digest: (token: string) => string;
  /** The same for tokens and sessions of the admin API. */
  readonly adminDigest: (token: string) => string;
  /** A new client key. Its public id becomes the key's id. */
  readonly makeKeyToken: () => NewToken;
  /** A new token for the admin API. */
  readonly makeAdminToken: () => NewToken;
  /** A hash that is slow to guess, since people choose passwords. */
  readonly hashPassword: (password: string) => Promise<string>;
  /** How messages name the configuration: its file, or the environment. */
  readonly configName: string;
  /** The keys of the configuration as it is now. */
  readonly fileKeys: () => readonly Key[];
  /** Whether a token is that of one of these keys. */
  readonly opensFileKey: (token: string) => boolean;
  /** The prices that are not in the store. */
  readonly prices: () => { readonly shipped: readonly Price[]; readonly file: readonly Price[] };
}

export interface NewToken {
  readonly token: string;
  readonly publicId: string;
}
