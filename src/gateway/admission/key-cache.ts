import type { Key } from "../../keys/key.ts";
import { parseToken } from "../../keys/token.ts";
import { BoundedMap } from "../upstream-state/bounded-map.ts";
import { StorageError, type ChangedKey, type OpenedKey } from "../storage.ts";

/** What a token opens: a key, nothing, or unknown because the store does not answer or its data is damaged. */
export type Opened = Key | null | "unavailable" | DamagedKey;

/** A key that this version cannot read. The reason names the key and how to fix it. */
export interface DamagedKey {
  readonly damaged: string;
}

export interface KeyCachePorts {
  readonly byDigest: (digest: string) => Promise<OpenedKey | null>;
  /** Milliseconds on a monotonic clock. */
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** A key was used. Called often. */
  readonly used: (keyId: string) => void;
}

/**
 * The keys of the store that calls have used, by the digest of their tokens. A known key is returned at once, and for a limited time
 * also while the store is unreachable. The follower reports changes of the store, so an entry is as fresh as its last report.
 */
export class KeyCache {
  private readonly known = new BoundedMap<string, OpenedKey>(knownMax, (digest, { key }) => this.unlink(digest, key.id));
  private readonly digestsOf = new Map<string, Set<string>>();
  private readonly unknownTokens = new Map<string, number>();
  private readonly pending = new Map<string, Promise<Opened>>();
  private syncedMs: number;
  /** Counts reported changes. */
  private changes = 0;
  /** By the ids of keys and the digests of their tokens: their last change while the store was being asked for keys. */
  private readonly changedAt = new Map<string, number>();
  /** The last change that may have been one of any key. */
  private unsureAt = 0;

  constructor(private readonly ports: KeyCachePorts) {
    this.syncedMs = ports.nowMs();
  }

  /** With the token itself, a mistyped one is recognised by its checksum, and the store is not asked. */
  find(digest: string, token: string | null = null): Opened | Promise<Opened> {
    const entry = this.known.get(digest);
    if (entry !== undefined) {
      if (this.isStale()) return "unavailable";
      return this.open(entry);
    }
    const nowMs = this.ports.nowMs();
    const until = this.unknownTokens.get(digest);
    if (until !== undefined && until > nowMs) return null;
    if (token !== null && parseToken(token) === "damaged") return null;
    return this.pending.get(digest) ?? this.lookUp(digest);
  }

  /** The store was not reached for so long that what is known of its keys must not be relied on. */
  isStale(): boolean {
    return this.ports.nowMs() - this.syncedMs > staleMaxMs;
  }

  /** The store was reached, and these are all changes. Returns the keys that were revoked. */
  changed(keys: readonly ChangedKey[]): readonly string[] {
    this.syncedMs = this.ports.nowMs();
    if (keys.length === 0) return [];
    this.changes += 1;
    this.unknownTokens.clear();
    if (this.pending.size > 0) this.noteChanged(keys);
    return this.renewed(keys);
  }

  /** The store was reached, and there were too many changes to list. Returns the known keys, whose present state must be reported next. */
  invalidate(): readonly string[] {
    this.changes += 1;
    this.unsureAt = this.changes;
    this.unknownTokens.clear();
    return [...this.digestsOf.keys()];
  }

  /**
   * The present state of some keys. Entries are replaced and not dropped, because the store may become unreachable at any time.
   * Returns the revoked keys.
   */
  renewed(keys: readonly ChangedKey[]): readonly string[] {
    for (const changed of keys) this.replace(changed);
    return keys.filter(({ revoked }) => revoked).map(({ id }) => id);
  }

  private async lookUp(digest: string): Promise<Opened> {
    if (this.pending.size >= pendingMax) return "unavailable";
    const answer = this.readStore(digest);
    this.pending.set(digest, answer);
    try {
      return await answer;
    } finally {
      this.pending.delete(digest);
      if (this.pending.size === 0) this.changedAt.clear();
    }
  }

  private noteChanged(keys: readonly ChangedKey[]): void {
    if (this.changedAt.size >= changedMax) {
      this.changedAt.clear();
      this.unsureAt = this.changes;
    }
    for (const { id, key, tokens } of keys) {
      this.changedAt.set(id, this.changes);
      for (const { digest } of tokens) this.changedAt.set(digest, this.changes);
      // Its tokens are not known.
      if (key === null) this.unsureAt = this.changes;
    }
  }

  private hasChanged(digest: string, entry: OpenedKey | null, since: number): boolean {
    if (this.unsureAt > since) return true;
    const at = Math.max(this.changedAt.get(digest) ?? 0, entry === null ? 0 : (this.changedAt.get(entry.key.id) ?? 0));
    return at > since;
  }

  /**
   * Asks the store. If a change of the key is reported meanwhile, the answer may be older than the change, which will not be reported
   * again. So the store is asked once more.
   */
  private async readStore(digest: string): Promise<Opened> {
    for (let round = 0; round < roundsMax; round++) {
      const { changes } = this;
      let entry: OpenedKey | null;
      try {
        entry = await this.ports.byDigest(digest);
      } catch (error) {
        return error instanceof StorageError && error.kind === "damaged" ? { damaged: error.message } : "unavailable";
      }
      if (changes !== this.changes && this.hasChanged(digest, entry, changes)) continue;
      // A token that has expired takes as long as one that never existed, so that timing does not tell them apart.
      const opened = entry === null ? null : this.open(entry);
      if (entry !== null && opened !== null) {
        this.store(digest, entry);
        return opened;
      }
      if (this.unknownTokens.size >= unknownMax) this.unknownTokens.clear();
      this.unknownTokens.set(digest, this.ports.nowMs() + unknownMs);
      return null;
    }
    return "unavailable";
  }

  private open({ key, tokenExpiresMs }: OpenedKey): Key | null {
    if (key.revokedMs !== null || (tokenExpiresMs !== null && tokenExpiresMs <= this.ports.wallMs())) return null;
    this.ports.used(key.id);
    return key;
  }

  private store(digest: string, entry: OpenedKey): void {
    this.known.set(digest, entry);
    const digests = this.digestsOf.get(entry.key.id);
    if (digests === undefined) this.digestsOf.set(entry.key.id, new Set([digest]));
    else digests.add(digest);
  }

  private unlink(digest: string, keyId: string): void {
    const digests = this.digestsOf.get(keyId);
    digests?.delete(digest);
    if (digests?.size === 0) this.digestsOf.delete(keyId);
  }

  private replace({ id, key, revoked, tokens }: ChangedKey): void {
    if (!this.digestsOf.has(id)) return;
    this.forget(id);
    if (key === null || revoked) return;
    // Tokens of the key that no call has used yet are stored, too.
    for (const { digest, expiresMs } of tokens) this.store(digest, { key, tokenExpiresMs: expiresMs });
  }

  private forget(keyId: string): void {
    for (const digest of this.digestsOf.get(keyId) ?? []) this.known.delete(digest);
    this.digestsOf.delete(keyId);
  }
}

/** How long a known key is accepted while the store is unreachable. */
const staleMaxMs = 15 * 60_000;
const knownMax = 50_000;
/** A token that opened nothing is not looked up again for a moment, so that guessing does not load the store. */
const unknownMs = 2_000;
const unknownMax = 20_000;
/** More than there are guessing connections, so that a valid key among them is still looked up. */
const pendingMax = 10_000;
/** Each round needs another change of the same key. */
const roundsMax = 10;
/** More changes than this while the store is asked for keys count as changes of all keys. */
const changedMax = 20_000;
