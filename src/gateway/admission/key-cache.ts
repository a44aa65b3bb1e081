import type { Key } from "../../keys/key.ts";
import { parseToken } from "../../keys/token.ts";
import { BoundedMap } from "../upstream-state/bounded-map.ts";
import { StorageTrouble, type ChangedKey, type OpenedKey } from "../storage.ts";

/** What a token opens: a key, nothing, or nobody can say because the store does not answer or what it says makes no sense. */
export type Opened = Key | null | "unavailable" | DamagedKey;

/** A key that this version cannot read. The reason names it, and what is to be done. */
export interface DamagedKey {
  readonly damaged: string;
}

export interface KeyCachePorts {
  readonly byDigest: (digest: string) => Promise<OpenedKey | null>;
  /** Milliseconds on a clock that never jumps. */
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** A key was used; told often. */
  readonly used: (keyId: string) => void;
}

/**
 * The keys of the store as far as calls have named them, by the digest of their tokens. A key that is known answers at once,
 * and goes on doing so while the store is away, for a while; one that is not is asked for. Whoever follows the store's
 * changes tells us of them, so what is known here is as fresh as that.
 */
export class KeyCache {
  private readonly known = new BoundedMap<string, OpenedKey>(knownMax, (digest, { key }) => this.unlink(digest, key.id));
  private readonly digestsOf = new Map<string, Set<string>>();
  private readonly strangers = new Map<string, number>();
  private readonly asking = new Map<string, Promise<Opened>>();
  private syncedMs: number;
  /** How often something has changed. */
  private changes = 0;

  constructor(private readonly ports: KeyCachePorts) {
    this.syncedMs = ports.nowMs();
  }

  /** With the token itself, one that was mistyped is known as such, and nobody is asked for it. */
  find(digest: string, token: string | null = null): Opened | Promise<Opened> {
    const entry = this.known.get(digest);
    if (entry !== undefined) {
      if (this.ports.nowMs() - this.syncedMs > staleMaxMs) return "unavailable";
      return this.open(entry);
    }
    const nowMs = this.ports.nowMs();
    const until = this.strangers.get(digest);
    if (until !== undefined && until > nowMs) return null;
    if (token !== null && parseToken(token) === "damaged") return null;
    return this.asking.get(digest) ?? this.ask(digest);
  }

  /** The store was reached, and this is all that changed. Returns the keys that were revoked since. */
  changed(keys: readonly ChangedKey[]): readonly string[] {
    this.syncedMs = this.ports.nowMs();
    if (keys.length === 0) return [];
    this.changes += 1;
    this.strangers.clear();
    return this.renewed(keys);
  }

  /** The store was reached, and more changed than it tells. Returns the keys that are known: how they are now is to be told next. */
  unsure(): readonly string[] {
    this.changes += 1;
    this.strangers.clear();
    return [...this.digestsOf.keys()];
  }

  /**
   * How some keys are now. What is known is replaced and not forgotten: the store may be lost in the next moment. Returns those
   * that are revoked.
   */
  renewed(keys: readonly ChangedKey[]): readonly string[] {
    for (const changed of keys) this.replace(changed);
    return keys.filter(({ revoked }) => revoked).map(({ id }) => id);
  }

  private async ask(digest: string): Promise<Opened> {
    if (this.asking.size >= askingMax) return "unavailable";
    const answer = this.answer(digest);
    this.asking.set(digest, answer);
    try {
      return await answer;
    } finally {
      this.asking.delete(digest);
    }
  }

  /**
   * What the store says. Should it be told of a change meanwhile, the answer may be older than that, and nobody would tell
   * us of the change again: it is asked once more.
   */
  private async answer(digest: string): Promise<Opened> {
    for (let round = 0; round < roundsMax; round++) {
      const { changes } = this;
      let entry: OpenedKey | null;
      try {
        entry = await this.ports.byDigest(digest);
      } catch (error) {
        return error instanceof StorageTrouble && error.kind === "damaged" ? { damaged: error.message } : "unavailable";
      }
      if (changes !== this.changes) continue;
      // What opens nothing any more is not told from what never did, not even by the time it takes.
      const opened = entry === null ? null : this.open(entry);
      if (entry !== null && opened !== null) {
        this.remember(digest, entry);
        return opened;
      }
      if (this.strangers.size >= strangersMax) this.strangers.clear();
      this.strangers.set(digest, this.ports.nowMs() + strangerMs);
      return null;
    }
    return "unavailable";
  }

  private open({ key, tokenExpiresMs }: OpenedKey): Key | null {
    if (key.revokedMs !== null || (tokenExpiresMs !== null && tokenExpiresMs <= this.ports.wallMs())) return null;
    this.ports.used(key.id);
    return key;
  }

  private remember(digest: string, entry: OpenedKey): void {
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
    // Those that nobody has come with yet belong to the same key.
    for (const { digest, expiresMs } of tokens) this.remember(digest, { key, tokenExpiresMs: expiresMs });
  }

  private forget(keyId: string): void {
    for (const digest of this.digestsOf.get(keyId) ?? []) this.known.delete(digest);
    this.digestsOf.delete(keyId);
  }
}

/** How long a known key is served while the store cannot be reached. */
const staleMaxMs = 15 * 60_000;
const knownMax = 50_000;
/** A token that opened nothing is not asked for again for a moment: whoever guesses must not become the store's load. */
const strangerMs = 2_000;
const strangersMax = 20_000;
/** More than connections that guess: whoever comes with a good key among them waits for its answer, and gets it. */
const askingMax = 10_000;
const roundsMax = 3;
