import type { KeyChange, NewKey, StoredKey, HashedToken } from "../keys/stored-key.ts";
import type { Price } from "../usage/price.ts";
import type { Receipt } from "../usage/receipt.ts";
import type { UsageQuery, UsageRow } from "../usage/usage-row.ts";

/**
 * The durable half, whatever keeps it. Every change is one transaction that also writes the audit trail and raises the
 * revision, by which other processes notice. Methods reject with a `StorageTrouble` and with nothing else.
 */
export interface Storage {
  readonly keys: KeyStorage;
  readonly channels: ChannelStorage;
  readonly prices: PriceStorage;
  readonly receipts: ReceiptStorage;
  readonly budgets: BudgetStorage;
  readonly audit: AuditStorage;
  readonly accounts: AccountStorage;
  /** Rises with every change of keys, channels and prices. */
  revision(): Promise<number>;
  close(): Promise<void>;
}

/**
 * Why the store did not do it. `unavailable`: it may later; `full`: no room; `conflict`: it does not go together with what is
 * there, such as a name that somebody has; `invalid`: it could never be kept or looked for.
 */
export class StorageTrouble extends Error {
  constructor(
    readonly kind: "unavailable" | "full" | "conflict" | "missing" | "damaged" | "invalid",
    message: string,
  ) {
    super(message);
    this.name = "StorageTrouble";
  }
}

/** Who did it, for the audit trail. */
export interface Actor {
  readonly kind: "cli" | "admin" | "gateway";
  /** The name of an account or token, or of the system's user. */
  readonly name: string;
  /** From where, where that is known. */
  readonly address?: string;
}

export interface KeyStorage {
  /** `id` is the public part of the token, or a made-up one for an imported key. */
  create(id: string, key: NewKey, token: HashedToken, by: Actor): Promise<StoredKey>;
  get(id: string): Promise<StoredKey | null>;
  /** The one whose id or name it is. */
  find(idOrName: string): Promise<StoredKey | null>;
  list(query: KeyQuery): Promise<readonly StoredKey[]>;
  /** How many there are, counted up to a thousand. */
  count(): Promise<number>;
  change(id: string, change: KeyChange, by: Actor): Promise<StoredKey>;
  /** The token replaces the others, which still open the key for a while. */
  rotate(id: string, token: HashedToken, overlapMs: number, by: Actor): Promise<StoredKey>;
  /** For good. Harmless when it already is. */
  revoke(id: string, by: Actor): Promise<StoredKey>;
  /** The key a token opens, also where it is revoked or expired, and until when this token does. */
  byDigest(digest: string): Promise<OpenedKey | null>;
  /** What changed after a revision, of any age; more than `max` changes are reported as `all`. */
  changedSince(revision: number, max: number): Promise<{ readonly revision: number; readonly keys: readonly ChangedKey[] | "all" }>;
  /** How these keys are now, each of them. */
  current(ids: readonly string[]): Promise<readonly ChangedKey[]>;
  /** When keys were last used, by id, in wall-clock milliseconds. Only ever moves forward. No audit. */
  used(lastMs: ReadonlyMap<string, number>): Promise<void>;
}

/** A key as it is now, and what opens it. */
export interface ChangedKey {
  readonly id: string;
  /** Null where there is none, or none that can be read. */
  readonly key: StoredKey | null;
  readonly revoked: boolean;
  readonly tokens: readonly { readonly digest: string; readonly expiresMs: number | null }[];
}

export interface OpenedKey {
  readonly key: StoredKey;
  readonly tokenExpiresMs: number | null;
}

export interface KeyQuery {
  /** Part of a name, an owner, a note or an id, in any case, taken literally. */
  readonly search: string | null;
  readonly revoked: boolean;
  /** The id of the last one of the page before. */
  readonly after: string | null;
  readonly limit: number;
}

/** A channel made at run time. `entry` is what the configuration file would say of it, without its secrets. */
export interface StoredChannel {
  readonly name: string;
  readonly entry: Readonly<Record<string, unknown>>;
  /** What it is opened with upstream, encrypted; see the vault. */
  readonly sealed: string | null;
  /** The ends of its secrets, to tell them apart. */
  readonly last4: readonly string[];
  readonly createdMs: number;
  readonly updatedMs: number;
}

export interface ChannelStorage {
  list(): Promise<readonly StoredChannel[]>;
  get(name: string): Promise<StoredChannel | null>;
  create(channel: Pick<StoredChannel, "name" | "entry" | "sealed" | "last4">, by: Actor): Promise<StoredChannel>;
  change(name: string, change: Partial<Pick<StoredChannel, "entry" | "sealed" | "last4">>, by: Actor): Promise<StoredChannel>;
  /** A change decided by what the channel is at that moment: nobody else changes it in between. Null: it is left as it is. */
  revise(
    name: string,
    decide: (before: StoredChannel) => Promise<Partial<Pick<StoredChannel, "entry" | "sealed" | "last4">> | null>,
    by: Actor,
  ): Promise<StoredChannel | null>;
  remove(name: string, by: Actor): Promise<void>;
  /** Replaces sealed secrets without a change anybody would notice: for a new master key. */
  reseal(name: string, from: string, to: string): Promise<boolean>;
}

export interface StoredPrice extends Price {
  readonly id: string;
  readonly createdMs: number;
  readonly note: string | null;
}

export interface PriceStorage {
  list(): Promise<readonly StoredPrice[]>;
  /** One for the same provider, model and day is replaced. */
  set(price: Price & { readonly note: string | null }, by: Actor): Promise<StoredPrice>;
  remove(id: string, by: Actor): Promise<void>;
}

export interface ReceiptStorage {
  /** By its own id, by the request id that the gateway made for it, or the newest one whose client chose this request id. */
  find(id: string): Promise<Receipt | null>;
  /** The ids of other receipts whose clients chose the same request id, newest first. */
  namesakes(receipt: Receipt): Promise<readonly string[]>;
  list(query: ReceiptQuery): Promise<readonly Receipt[]>;
  usage(query: UsageQuery): Promise<readonly UsageRow[]>;
}

export interface ReceiptQuery {
  readonly keyId: string | null;
  readonly model: string | null;
  readonly channel: string | null;
  readonly state: string | null;
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  /** The id of the last one of the page before; newest first. */
  readonly before: string | null;
  readonly limit: number;
}

/** Money held by a process for the calls of a key, out of what its budget leaves. */
export interface BudgetStorage {
  /**
   * Holds more for a key: at least `need`, or nothing; at most `wish`. What was spent in the period is known from receipts.
   * A hold outlives its process by `lifeMs`, so that the receipts it left behind can still be counted first.
   */
  hold(ask: BudgetAsk): Promise<BudgetAnswer>;
  /** Gives back what this holder does not need, and prolongs the rest. */
  keep(holder: string, kept: readonly KeptHold[], lifeMs: number): Promise<void>;
  /** The budgets of which this holder was asked to return what it does not need. */
  wanted(holder: string): Promise<readonly string[]>;
  /** A process that has drained its journal of an earlier life starts with nothing. */
  release(holder: string): Promise<void>;
}

export interface BudgetAsk {
  /** What the budget belongs to: a key's id, or a key's id and a pattern of models. */
  readonly budget: string;
  readonly keyId: string;
  /** The pattern; null for all models. */
  readonly models: string | null;
  /** Patterns of the rules before this one: of what fits them, nothing counts here. */
  readonly exceptModels?: readonly string[];
  readonly limitNanos: number;
  /** The first moment of the period that is counted. */
  readonly sinceMs: number;
  readonly holder: string;
  readonly need: number;
  readonly wish: number;
  readonly lifeMs: number;
  /** What calls wait for: granted as far as it is there. */
  readonly waiting?: number;
  /** Beyond what calls wait for nobody gets more than what is left, divided by this: the others want some too. */
  readonly sharers?: number;
  /** Where there is too little, the other holders are asked to return what they do not need. */
  readonly press?: boolean;
  /** What the holder gives back of its own first: taken off once, and never again should the answer get lost. */
  readonly back?: number;
}

export interface KeptHold {
  readonly budget: string;
  /** The most that is still held. */
  readonly nanos: number;
  /** What is given back of it; it is taken off once, and never again should the answer get lost. */
  readonly back?: number;
  /** Whether this is the answer to having been asked to return what is not needed. */
  readonly answers?: boolean;
}

export type BudgetAnswer =
  /** `leftNanos`: what is neither spent nor held by anybody after this. */
  | { readonly ok: true; readonly nanos: number; readonly spentNanos: number; readonly leftNanos: number }
  | ({ readonly ok: false; readonly spentNanos: number } & HeldMoney & {
        /** How many other holders were asked to return what they do not need, and have not answered. */
        readonly awaited: number;
      });

/** What is held of a budget, and by whom. */
export interface HeldMoney {
  readonly heldNanos: number;
  /** Of that, by the one who asks. */
  readonly ownNanos: number;
  /** How many others hold the rest. */
  readonly others: number;
}

export interface AuditEntry {
  readonly id: string;
  readonly atMs: number;
  readonly actor: Actor;
  /** Such as `key.create`. */
  readonly action: string;
  readonly subject: string;
  /** What changed. Never a secret. */
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface AuditStorage {
  list(query: AuditQuery): Promise<readonly AuditEntry[]>;
  /** For what changes nothing in the store, such as a log-in. */
  note(action: string, subject: string, detail: Readonly<Record<string, unknown>>, by: Actor): Promise<void>;
}

export interface AuditQuery {
  readonly action: string | null;
  readonly subject: string | null;
  readonly actor: string | null;
  readonly sinceMs: number | null;
  readonly before: string | null;
  readonly limit: number;
}

export type Role = "admin" | "viewer";

export interface Account {
  readonly name: string;
  readonly role: Role;
  readonly createdMs: number;
  readonly disabledMs: number | null;
}

export interface Session {
  readonly digest: string;
  readonly account: string;
  readonly role: Role;
  readonly csrf: string;
  readonly createdMs: number;
  readonly seenMs: number;
}

export interface AccountStorage {
  count(): Promise<number>;
  list(): Promise<readonly Account[]>;
  create(account: { readonly name: string; readonly role: Role; readonly passwordHash: string }, by: Actor): Promise<Account>;
  /** A changed password, role or state ends every session of the account. */
  change(
    name: string,
    change: { readonly role?: Role; readonly passwordHash?: string; readonly disabled?: boolean },
    by: Actor,
  ): Promise<Account>;
  remove(name: string, by: Actor): Promise<void>;
  passwordHash(name: string): Promise<{ readonly hash: string; readonly account: Account } | null>;

  openSession(session: Session): Promise<void>;
  /** Only of an account that is not disabled. */
  session(digest: string): Promise<Session | null>;
  seen(digest: string, atMs: number): Promise<void>;
  endSession(digest: string): Promise<void>;
  /** Forgets what has not been seen since the one and not been opened since the other. */
  sweepSessions(seenBeforeMs: number, openedBeforeMs: number): Promise<void>;

  /** Tokens for machines, which stand for a role. */
  createToken(token: { readonly name: string; readonly role: Role; readonly mark: HashedToken }, by: Actor): Promise<AdminToken>;
  tokens(): Promise<readonly AdminToken[]>;
  token(digest: string): Promise<AdminToken | null>;
  revokeToken(name: string, by: Actor): Promise<void>;

  /** A new one replaces the one before. */
  setBootstrap(digest: string, expiresMs: number): Promise<void>;
  /** Creates the first account with it: true exactly once, and never after its time or when there are accounts. */
  useBootstrap(
    digest: string,
    nowMs: number,
    account: { readonly name: string; readonly role: Role; readonly passwordHash: string },
    by: Actor,
  ): Promise<boolean>;
}

export interface AdminToken {
  readonly name: string;
  readonly role: Role;
  readonly last4: string;
  readonly createdMs: number;
  readonly revokedMs: number | null;
}
