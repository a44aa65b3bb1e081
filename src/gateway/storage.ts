import type { PaidCalls } from "../keys/budget-selector.ts";
import type { Group } from "../keys/group.ts";
import type { GroupChange, NewGroup, StoredGroup } from "../keys/stored-group.ts";
import type { KeyChange, NewKey, StoredKey, HashedToken } from "../keys/stored-key.ts";
import type { OutcomeMark } from "../usage/call-outcome.ts";
import type { AnswerTimes, AnswerTimesQuery, OutcomeRow, UpstreamRow } from "../usage/outcome-row.ts";
import type { Price } from "../usage/price.ts";
import type { Receipt } from "../usage/receipt.ts";
import type { UsageQuery, UsageRow } from "../usage/usage-row.ts";

/**
 * The durable store, as an interface for its implementations. Each change is one transaction that also writes the audit log and
 * increments the revision, by which other processes notice it. Methods reject only with a `StorageError`.
 */
export interface Storage {
  readonly keys: KeyStorage;
  readonly groups: GroupStorage;
  readonly channels: ChannelStorage;
  readonly prices: PriceStorage;
  readonly receipts: ReceiptStorage;
  readonly budgets: BudgetStorage;
  readonly audit: AuditStorage;
  readonly accounts: AccountStorage;
  readonly blockedSubjects: BlockedSubjectStorage;
  /** Increases with each change of keys, groups, channels or prices. */
  revision(): Promise<number>;
  /**
   * Makes several changes in one transaction: all of them, or none if `work` rejects. Nobody else changes anything meanwhile. `work`
   * may run again after a conflict, and must use the storage that it is given.
   */
  together<T>(work: (storage: Storage) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/**
 * Why a request to the store failed. `unavailable`: a retry may succeed; `full`: the disk is full or read-only; `conflict`: the change
 * contradicts existing data, such as a name that is taken; `invalid`: the value can never be stored or searched for.
 */
export class StorageError extends Error {
  constructor(
    readonly kind: "unavailable" | "full" | "conflict" | "missing" | "damaged" | "invalid",
    message: string,
    /** The store works, but somebody else is writing to it. */
    readonly isBusy = false,
  ) {
    super(message);
    this.name = "StorageError";
  }
}

/** Who made a change, for the audit log. */
export interface Actor {
  readonly kind: "cli" | "admin" | "gateway";
  /** The name of an account, a token or the operating system's user. */
  readonly name: string;
  /** The IP address of the client, or the name of the machine that a command was given on. */
  readonly address?: string;
  /** Of a person who has signed in with a provider: people may choose their names. */
  readonly person?: ProvidedPerson;
}

/** Whom a provider vouches for. It does not call anybody else so. */
export interface ProvidedPerson {
  readonly issuer: string;
  readonly subject: string;
}

export interface KeyStorage {
  /** `id` is the public part of the token, or a generated one for an imported key. */
  create(id: string, key: NewKey, token: HashedToken, by: Actor): Promise<StoredKey>;
  get(id: string): Promise<StoredKey | null>;
  /** Finds a key by id or by name. */
  find(idOrName: string): Promise<StoredKey | null>;
  list(query: KeyQuery): Promise<readonly StoredKey[]>;
  /** The number of keys, counted up to a thousand. */
  count(): Promise<number>;
  change(id: string, change: KeyChange, by: Actor): Promise<StoredKey>;
  /** The new token replaces the others, which stay valid for `overlapMs`. It may be one that was replaced before. */
  rotate(id: string, token: HashedToken, overlapMs: number, by: Actor): Promise<StoredKey>;
  /** Cannot be undone. Revoking a revoked key changes nothing. */
  revoke(id: string, by: Actor): Promise<StoredKey>;
  /** The key of a token, also if it is revoked or expired, and when this token expires. */
  byDigest(digest: string): Promise<OpenedKey | null>;
  /** The keys that changed after a revision; `all` if there are more than `max`. */
  changedSince(revision: number, max: number): Promise<{ readonly revision: number; readonly keys: readonly ChangedKey[] | "all" }>;
  /** The current state of each of these keys. */
  current(ids: readonly string[]): Promise<readonly ChangedKey[]>;
  /** Records when keys were last used, by id, in wall-clock milliseconds. Times never move backwards. Not in the audit log. */
  used(lastMs: ReadonlyMap<string, number>): Promise<void>;
}

/** `inFile`: the groups of the configuration, which a group may have as its parent. */
export interface GroupStorage {
  create(id: string, group: NewGroup, inFile: readonly Group[], by: Actor): Promise<StoredGroup>;
  get(id: string): Promise<StoredGroup | null>;
  /** Finds a group by id or by name. */
  find(idOrName: string): Promise<StoredGroup | null>;
  /** All groups, or those with these ids. One that cannot be read is left out. */
  list(ids?: readonly string[]): Promise<readonly StoredGroup[]>;
  /** A group and those above it, in no order. Groups of the configuration are not among them. */
  above(id: string): Promise<readonly StoredGroup[]>;
  /** The ids of these groups and of all groups below them. Those of the configuration can be asked for, but are not returned. */
  within(ids: readonly string[]): Promise<readonly string[]>;
  /** The names of these groups, also of deleted ones. */
  names(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  change(id: string, change: GroupChange, inFile: readonly Group[], by: Actor): Promise<StoredGroup>;
  /** A group that has keys or other groups cannot be deleted. */
  remove(id: string, by: Actor): Promise<void>;
  /** Brings a deleted group back, as it was. */
  restore(id: string, inFile: readonly Group[], by: Actor): Promise<StoredGroup>;
  /** The groups that changed after a revision; all of them if it is null, or later than the store's: an older backup was restored. */
  changedSince(revision: number | null): Promise<{ readonly revision: number } & ChangedGroups>;
}

export interface ChangedGroups {
  /** All groups that there are, and not only those that changed. */
  readonly isWhole: boolean;
  readonly groups: readonly ChangedGroup[];
}

export interface ChangedGroup {
  readonly id: string;
  /** Null if the group was deleted or cannot be read. */
  readonly group: StoredGroup | null;
}

/** The current state of a key and its tokens. */
export interface ChangedKey {
  readonly id: string;
  /** Null if the key does not exist or cannot be read. */
  readonly key: StoredKey | null;
  readonly revoked: boolean;
  readonly tokens: readonly { readonly digest: string; readonly expiresMs: number | null }[];
}

export interface OpenedKey {
  readonly key: StoredKey;
  readonly tokenExpiresMs: number | null;
}

export interface KeyQuery {
  /** A part of a name, an owner, a note or an id. Case is ignored, and there are no wildcards. */
  readonly search: string | null;
  readonly revoked: boolean;
  /** Only keys of these groups; null or absent: all keys. */
  readonly groups?: readonly string[] | null;
  /** The last id of the previous page. */
  readonly after: string | null;
  readonly limit: number;
}

/** A channel that was created at run time. `entry` is what the configuration file would say about it, without its secrets. */
export interface StoredChannel {
  readonly name: string;
  readonly entry: Readonly<Record<string, unknown>>;
  /** The credentials for the upstream, encrypted by `ChannelSecrets`. */
  readonly sealed: string | null;
  /** The last characters of each secret, to tell them apart. */
  readonly last4: readonly string[];
  readonly createdMs: number;
  readonly updatedMs: number;
}

export interface ChannelStorage {
  list(): Promise<readonly StoredChannel[]>;
  /** A short text that is another one after a channel was added, changed or removed. */
  version(): Promise<string>;
  get(name: string): Promise<StoredChannel | null>;
  create(channel: Pick<StoredChannel, "name" | "entry" | "sealed" | "last4">, by: Actor): Promise<StoredChannel>;
  change(name: string, change: Partial<Pick<StoredChannel, "entry" | "sealed" | "last4">>, by: Actor): Promise<StoredChannel>;
  /** Changes a channel depending on its current state, which nobody else can change in between. `decide` returns null to leave it as it is. */
  revise(
    name: string,
    decide: (before: StoredChannel) => Promise<Partial<Pick<StoredChannel, "entry" | "sealed" | "last4">> | null>,
    by: Actor,
  ): Promise<StoredChannel | null>;
  remove(name: string, by: Actor): Promise<void>;
  /** Replaces the encrypted secrets after a rotation of the master key. Not a change of the channel. */
  reseal(name: string, from: string, to: string): Promise<boolean>;
}

export interface StoredPrice extends Price {
  readonly id: string;
  readonly createdMs: number;
  readonly note: string | null;
}

export interface PriceStorage {
  list(): Promise<readonly StoredPrice[]>;
  /** Replaces an existing price for the same provider, model and day. */
  set(price: Price & { readonly note: string | null }, by: Actor): Promise<StoredPrice>;
  remove(id: string, by: Actor): Promise<void>;
}

export interface ReceiptStorage {
  /** Finds a receipt by its id, by the request id that the gateway created, or the newest one for which the client sent this request id. */
  find(id: string): Promise<Receipt | null>;
  /** The ids of other receipts for which the client sent the same request id, newest first. */
  namesakes(receipt: Receipt): Promise<readonly string[]>;
  list(query: ReceiptQuery): Promise<readonly Receipt[]>;
  /**
   * How far back a list would get by reading `count` receipts of its time range, whether they match or not: the `from` of a list that
   * must not read more, and the `before` of the one after it. Null if there are not that many.
   */
  horizon(query: ReceiptQuery, count: number): Promise<string | null>;
  usage(query: UsageQuery): Promise<readonly UsageRow[]>;
  /** How many streams had their first content within each of `firstContentBoundsMs`, and beyond; extended to whole hours. */
  firstContents(sinceMs: number, untilMs: number | null): Promise<readonly number[]>;
  /** How the same calls ended. Rows in which nothing is special are missing. */
  outcomes(query: UsageQuery): Promise<readonly OutcomeRow[]>;
  /** The first day on which outcomes, times and the use of upstreams were counted; null if there is none yet. */
  outcomesFrom(): Promise<number | null>;
  /** How long calls of a model took; extended to whole hours. */
  modelTimes(query: AnswerTimesQuery): Promise<AnswerTimes>;
  /** What channels used of the models of their upstreams; extended to whole days of UTC. */
  upstreamUse(sinceMs: number, untilMs: number): Promise<readonly UpstreamRow[]>;
  /** What was paid for calls that count for a group, or for a key with a budget that has a selector. */
  payments(ownerId: string, sinceMs: number | null): Promise<readonly Payment[]>;
}

export interface Payment extends PaidCalls {
  readonly nanos: number;
}

export interface ReceiptQuery {
  readonly keyId: string | null;
  /** Only calls that count for this group. */
  readonly groupId?: string | null;
  readonly model: string | null;
  readonly channel: string | null;
  readonly state: string | null;
  /** Only calls of which this was special. */
  readonly mark?: OutcomeMark | null;
  readonly figures?: FigureBounds;
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  /** The last id of the previous page; newest first. */
  readonly before: string | null;
  /** No id before this one: the horizon of the query. */
  readonly from?: string | null;
  readonly limit: number;
}

/** Bounds of what was measured, each inclusive. A call whose cost is unknown has none that could match. */
export interface FigureBounds {
  /** The status that the client got. */
  readonly statusMin?: number;
  readonly statusMax?: number;
  readonly nanosMin?: number;
  readonly nanosMax?: number;
  readonly tookMsMin?: number;
}

/** Holds: money that a process has set aside from a budget for its calls. */
export interface BudgetStorage {
  /**
   * Sets more money aside for calls: at least `need`, or nothing; at most `wish`. What was spent in the period is known from receipts.
   * A hold outlives its process by `ttlMs`, so that the receipts that the process left behind can be counted first.
   */
  hold(request: BudgetHoldRequest): Promise<BudgetHoldResult>;
  /** Returns what this holder does not need, and renews the rest. */
  renew(holder: string, renewals: readonly HoldRenewal[], ttlMs: number): Promise<void>;
  /** The budgets of which this holder was asked to return what it does not need. */
  wanted(holder: string): Promise<readonly string[]>;
  /** Deletes all holds of a process, after the journal of its previous run was drained. */
  release(holder: string): Promise<void>;
}

export interface BudgetHoldRequest {
  /** The id of the budget. */
  readonly budget: string;
  /** The id of the key or the group that it belongs to. */
  readonly ownerId: string;
  /** The model pattern; null for all models. */
  readonly models: string | null;
  /** Patterns of rules with precedence: models that match them do not count here. */
  readonly exceptModels?: readonly string[];
  /** A `BudgetSelector` as JSON, for a group or a selected budget; absent or null for what the sums of a key tell. */
  readonly selector?: string | null;
  readonly limitNanos: number;
  /** The start of the budget period. */
  readonly sinceMs: number;
  readonly holder: string;
  readonly need: number;
  readonly wish: number;
  readonly ttlMs: number;
  /** The amount that calls are waiting for, which is granted as far as it is available. */
  readonly waiting?: number;
  /** Beyond `waiting`, at most this fraction of what is left is granted, so that other processes get some too. */
  readonly sharers?: number;
  /** If too little is left, ask the other holders to return what they do not need. */
  readonly recall?: boolean;
  /** What the holder returns first. It is deducted once, and not again if the reply is lost. */
  readonly back?: number;
}

export interface HoldRenewal {
  readonly budget: string;
  /** The most that is still held. */
  readonly nanos: number;
  /** What is returned. It is deducted once, and not again if the reply is lost. */
  readonly back?: number;
  /** Whether this answers a request to return what is not needed. */
  readonly answers?: boolean;
}

export type BudgetHoldResult =
  /** `leftNanos`: what is neither spent nor held after this. */
  | { readonly ok: true; readonly nanos: number; readonly spentNanos: number; readonly leftNanos: number }
  | ({ readonly ok: false; readonly spentNanos: number } & HeldMoney & {
        /** How many other holders were asked to return what they do not need, and have not answered yet. */
        readonly awaited: number;
      });

/** What is held of a budget. */
export interface HeldMoney {
  readonly heldNanos: number;
  /** The part that the requesting process holds. */
  readonly ownNanos: number;
  /** How many other processes hold the rest. */
  readonly others: number;
}

export interface AuditEntry {
  readonly id: string;
  readonly atMs: number;
  readonly actor: Actor;
  /** For example `key.create`. */
  readonly action: string;
  readonly subject: string;
  /** What changed. Never contains a secret. */
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface AuditStorage {
  list(query: AuditQuery): Promise<readonly AuditEntry[]>;
  /** `groups`: only a change that is about one of them. */
  get(id: string, groups?: readonly string[]): Promise<AuditEntry | null>;
  /** Records an event that changes nothing in the store, such as a login. `group`: the one that it is about. */
  note(action: string, subject: string, detail: Readonly<Record<string, unknown>>, by: Actor, group?: string): Promise<void>;
  /**
   * Records which parts of the configuration file have changed, and how, unless another process has done so: from `before` to `parts`.
   * Without `before`, what is written is compared with what was last recorded, and the values of variables are not, because another replica
   * may have others. Nothing is recorded the first time.
   */
  configured(parts: ConfigurationParts, before: ConfigurationParts | null, by: Actor): Promise<void>;
}

/** The sections of the configuration file, and the entries of its lists that have names, such as `channels.main`. */
export type ConfigurationParts = ReadonlyMap<string, ConfigurationPart>;

export interface ConfigurationPart {
  /** A digest of what is written, with the names of variables. */
  readonly written: string;
  /** A digest of it with the values of variables and of secret files. */
  readonly resolved: string;
  /** What is written, by the path of each setting, without secrets; null if that is too long. */
  readonly values: Readonly<Record<string, WrittenValue>> | null;
}

/** A value as it may be shown, and a digest of it if that is not all of it. */
export type WrittenValue = readonly [shown: unknown, digest?: string];

export interface AuditQuery {
  readonly action: string | null;
  readonly subject: string | null;
  readonly actor: string | null;
  readonly sinceMs: number | null;
  /** Only changes that are about these groups; absent: all changes. */
  readonly groups?: readonly string[];
  readonly before: string | null;
  readonly limit: number;
}

/** An administrator of a group sees and manages that group alone. */
export type Role = "admin" | "viewer" | "group_admin";
export const roles = ["admin", "viewer", "group_admin"] as const satisfies readonly Role[];

export interface Account {
  readonly name: string;
  readonly role: Role;
  /** The group of a group admin. */
  readonly group?: string;
  readonly createdMs: number;
  readonly disabledMs: number | null;
}

export interface Session {
  readonly digest: string;
  /** The name of the account, or what a provider calls the person. */
  readonly account: string;
  /** The provider that the person signed in with; null for a local account. */
  readonly issuer: string | null;
  /** What the provider calls the person; null for a local account. */
  readonly subject: string | null;
  readonly role: Role;
  readonly group?: string;
  readonly csrf: string;
  readonly createdMs: number;
  readonly seenMs: number;
}

export interface AccountStorage {
  count(): Promise<number>;
  list(): Promise<readonly Account[]>;
  create(
    account: { readonly name: string; readonly role: Role; readonly group?: string; readonly passwordHash: string },
    by: Actor,
  ): Promise<Account>;
  /** Changing the password, the role or the state ends all sessions of the account. */
  change(
    name: string,
    change: { readonly role?: Role; readonly group?: string | null; readonly passwordHash?: string; readonly disabled?: boolean },
    by: Actor,
  ): Promise<Account>;
  remove(name: string, by: Actor): Promise<void>;
  passwordHash(name: string): Promise<{ readonly hash: string; readonly account: Account } | null>;

  openSession(session: Session): Promise<void>;
  /**
   * Whether this person may have a name: it belongs to the first who asked for it, until they have not asked for 90 days, have asked for
   * five others since, or are people of another issuer.
   */
  ownsName(name: string, person: ProvidedPerson): Promise<boolean>;
  /** Null for an account that is disabled. */
  session(digest: string): Promise<Session | null>;
  seen(digest: string, atMs: number): Promise<void>;
  /** Whether there was such a session: of several callers at the same time, one is told so. */
  endSession(digest: string): Promise<boolean>;
  /** Ends all sessions of a person, by the name in `Session.account` of one of them, and tells how many there were. */
  endSessions(account: string, by: Actor): Promise<number>;
  /** Deletes sessions that were last seen, or opened, before these times. */
  sweepSessions(seenBeforeMs: number, openedBeforeMs: number): Promise<void>;

  /** Until when local accounts may be used although the configuration turns them off; 0 if they may not. */
  localUntilMs(): Promise<number>;
  allowLocal(untilMs: number, by: Actor): Promise<void>;

  /** Tokens for programs, with a role. */
  createToken(
    token: { readonly name: string; readonly role: Role; readonly group?: string; readonly mark: HashedToken },
    by: Actor,
  ): Promise<AdminToken>;
  tokens(): Promise<readonly AdminToken[]>;
  token(digest: string): Promise<AdminToken | null>;
  revokeToken(name: string, by: Actor): Promise<void>;

  /** Replaces the previous bootstrap token. */
  setBootstrap(digest: string, expiresMs: number): Promise<void>;
  /** Creates the first account. Returns true only once, and never after the token has expired or when accounts exist. */
  useBootstrap(
    digest: string,
    nowMs: number,
    account: { readonly name: string; readonly role: Role; readonly passwordHash: string },
    by: Actor,
  ): Promise<boolean>;
}

/** Subjects whose tokens are not accepted in place of keys. */
export interface BlockedSubjectStorage {
  list(): Promise<readonly BlockedSubject[]>;
  /** Blocking what is blocked changes nothing. */
  block(issuer: string, subject: string | null, by: Actor): Promise<void>;
  /** Rejects if it is not blocked. */
  unblock(issuer: string, subject: string | null, by: Actor): Promise<void>;
}

export interface BlockedSubject {
  /** The name of the issuer in the configuration. */
  readonly issuer: string;
  /** Null for all subjects of the issuer. */
  readonly subject: string | null;
  readonly createdMs: number;
}

export interface AdminToken {
  readonly name: string;
  readonly role: Role;
  readonly group?: string;
  readonly last4: string;
  readonly createdMs: number;
  readonly revokedMs: number | null;
}
