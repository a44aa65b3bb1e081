import type { Actor } from "../../gateway/storage.ts";
import type { NewGroup } from "../../keys/stored-group.ts";
import type { HashedToken, NewKey } from "../../keys/stored-key.ts";
import type { Price } from "../../usage/price.ts";
import type { ChannelEditContext, ChannelRules } from "../channel-context.ts";
import type { StoredChannelEntry } from "../channel-secrets.ts";

/** What a file says about the contents of the store. A list that the file does not have is null, and stays as it is. */
export interface DesiredResources {
  /** Identifies the store whose hashes the file has. */
  readonly storeId: string | null;
  readonly channels: readonly DesiredChannel[] | null;
  readonly groups: readonly DesiredGroup[] | null;
  readonly keys: readonly DesiredKey[] | null;
  readonly prices: readonly DesiredPrice[] | null;
}

export interface DesiredChannel {
  readonly line: number | null;
  readonly name: string;
  /** Its settings as in the configuration file, without its name and its keys. */
  readonly entry: StoredChannelEntry;
  /** Null: the file does not give any, and those of the store stay. */
  readonly secrets: readonly string[] | null;
}

export interface DesiredGroup {
  readonly line: number | null;
  /** The parent by its name. */
  readonly fields: NewGroup;
  /** Null: the file does not say, and the group stays as it is. */
  readonly frozen: boolean | null;
}

export interface DesiredKey {
  readonly line: number | null;
  /** Null: the key is known by its name. */
  readonly id: string | null;
  /** The group by its name. */
  readonly fields: NewKey;
  /** What clients send, or its hash; null: the tokens of the store stay. */
  readonly token: string | HashedToken | null;
}

export interface DesiredPrice {
  readonly line: number | null;
  readonly price: Price & { readonly note: string | null };
}

/** One difference between a file and the store, and so what `apply` does about it. Without anything secret. */
export interface ResourceChange {
  readonly what: "channel" | "group" | "key" | "price";
  readonly name: string;
  readonly action: "create" | "change" | "remove" | "revoke";
  readonly fields: readonly FieldChange[];
  /** The line of the file. */
  readonly line: number | null;
}

export interface FieldChange {
  readonly field: string;
  /** Null: it was not set. */
  readonly from: unknown;
  readonly to: unknown;
}

/** A difference, and how it is removed. */
export interface PlannedChange {
  readonly change: ResourceChange;
  readonly run: (context: ResourceContext, actor: Actor) => Promise<unknown>;
}

/** What the comparison with a file needs. */
export interface ResourceContext extends ChannelEditContext {
  readonly channels: ChannelRules & {
    /** The secrets of a channel, or null if they cannot be decrypted. */
    readonly unseal: (channel: string, sealed: string) => readonly string[] | null;
  };
}
