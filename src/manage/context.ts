import type { Storage } from "../gateway/storage.ts";
import type { Group } from "../keys/group.ts";
import type { GroupTree } from "../keys/group-tree.ts";
import type { Key } from "../keys/key.ts";
import type { Price } from "../usage/price.ts";

/** What management actions need. */
export interface ManageContext {
  /** For changes and short queries. */
  readonly storage: Storage;
  /** The same store for long queries: lists, usage, receipts and the audit log. They do not delay calls. */
  readonly reports: Storage;
  /** Milliseconds since 1970. */
  readonly wallMs: () => number;
  /** The keyed hash by which the store finds a token: HMAC-SHA-256 with the pepper, in hex. */
  readonly digest: (token: string) => string;
  /** The same for tokens and sessions of the admin API. */
  readonly adminDigest: (token: string) => string;
  /** A new client key. Its public id becomes the key's id. */
  readonly makeKeyToken: () => NewToken;
  /** A new token for the admin API. */
  readonly makeAdminToken: () => NewToken;
  /** A slow hash, because people choose passwords. */
  readonly hashPassword: (password: string) => Promise<string>;
  /** Where the configuration defines something, for messages: its file and line, or a variable. */
  readonly definedAt: (list: "groups" | "keys" | "channels" | "prices", name: string) => string;
  /** The keys of the current configuration. */
  readonly fileKeys: () => readonly Key[];
  /** The groups of the current configuration. */
  readonly fileGroups: () => readonly Group[];
  /** Where the caller sees one group and those below it only. */
  readonly scope?: {
    readonly groupId: string;
    /** A group with those above it, also above the scope: defaults come from there. */
    readonly treeAbove: (id: string) => Promise<GroupTree>;
  };
  /** The names of the issuers whose tokens the configuration accepts. */
  readonly tokenIssuers: () => readonly string[];
  /** Whether a token belongs to one of these keys. */
  readonly opensFileKey: (token: string) => boolean;
  /** The prices that are not in the store. */
  readonly prices: () => { readonly shipped: readonly Price[]; readonly file: readonly Price[] };
}

export interface NewToken {
  readonly token: string;
  readonly publicId: string;
}

/** A hash of what something is now. It is keyed, because a channel contains what viewers may not see. */
export function revisionOf({ adminDigest }: Pick<ManageContext, "adminDigest">, text: string): string {
  return adminDigest(text).slice(0, revisionCharacters);
}

const revisionCharacters = 32;
