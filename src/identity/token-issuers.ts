import { createHash } from "node:crypto";
import type { Opened } from "../gateway/admission/key-cache.ts";
import { BoundedMap } from "../gateway/upstream-state/bounded-map.ts";
import { matchesPattern } from "../keys/allow.ts";
import { subjectPrefix, type Key } from "../keys/key.ts";
import type { StoredKey } from "../keys/stored-key.ts";
import { claimAt, claimTexts } from "./claims.ts";
import { IssuerClient, isObject, type FetchIssuerText } from "./issuer-client.ts";
import { KeySet } from "./key-set.ts";

/** An issuer whose tokens are accepted in place of keys. */
export interface TrustedIssuer {
  readonly name: string;
  readonly issuer: string;
  readonly audience: string;
  /** Null if the issuer's metadata tells it. */
  readonly jwksUri: string | null;
  readonly lifetimeMs: number;
  /** What a token may do: the first rule whose claims all match applies. No rule: nothing. */
  readonly rules: readonly TokenRule[];
}

export interface TokenRule {
  readonly claims: ReadonlyMap<string, string>;
  readonly key: Key;
  /** The id or the name of a key of the store, in place of `key`; null for none. A group of `key` goes before its own. */
  readonly storedKey: string | null;
  /** The id or the name of a group of the store that tokens belong to, in place of the key's own; null for none. */
  readonly storedGroup: string | null;
  /** Whether it names a group, of the file or of the store: then its tokens stay there, wherever the key is put. */
  readonly namesGroup: boolean;
}

/** A subject whose tokens are refused; null stands for all subjects of the issuer. */
export interface Blocked {
  readonly issuer: string;
  readonly subject: string | null;
}

export interface TokenIssuerPorts {
  readonly fetchText: FetchIssuerText;
  /** Monotonic. */
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  /** A key of the store, by its id or its name; null if there is none. */
  readonly storedKey: (idOrName: string) => Promise<StoredKey | null | "unavailable">;
  /** The store was not reached for so long that what is known of its keys must not be relied on. */
  readonly isStale: () => boolean;
  /** The id of a group of the store, by its id or its name; null if there is none. */
  readonly storedGroupId: (idOrName: string) => Promise<string | null | "unavailable">;
  /** A token was refused, and why. Called once a second at most. */
  readonly onRefused: (issuer: string, reason: string) => void;
}

/**
 * Turns tokens of issuers (JWT) into keys. A token is verified once; after that it is found by its digest, like a key of the store,
 * until it expires. Each subject is a key of its own, with its own limits and receipts, and the permissions of the rule's key.
 */
export class TokenIssuers {
  private issuers: ReadonlyMap<string, Trust> = new Map();
  private allowPrivate = false;
  private readonly known = new BoundedMap<string, SubjectKey>(knownMax);
  /** The keys of the store that accepted tokens have their permissions from, by id. */
  private readonly storedKeys = new Set<string>();
  private readonly refusedUntil = new BoundedMap<string, number>(refusedMax);
  /** One for each token that calls wait for at most; how many may wait for an issuer is bounded by its keys. */
  private readonly pending = new Map<string, Promise<Opened>>();
  private blockedIds: ReadonlySet<string> = new Set();
  private blockedIssuers: ReadonlySet<string> = new Set();
  private blockedFingerprint = "[]";
  /** Counts changes of the rules and of what they name, so that what began before one is not relied on after it. */
  private changes = 0;
  private refusalToldMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly ports: TokenIssuerPorts) {}

  /** Uses other rules. The keys of issuers that stay are kept, and no accepted token is. */
  configure(issuers: readonly TrustedIssuer[], allowPrivate: boolean): void {
    const before = this.issuers;
    this.issuers = new Map(
      issuers.map((trusted) => {
        const old = before.get(trusted.issuer);
        const isSame = old !== undefined && old.trusted.jwksUri === trusted.jwksUri && allowPrivate === this.allowPrivate;
        return [trusted.issuer, { trusted, keys: isSame ? old.keys : this.keysOf(trusted, allowPrivate) }];
      }),
    );
    this.allowPrivate = allowPrivate;
    this.forget();
  }

  /** Returns whether that is a change: accepted tokens are forgotten then. */
  setBlocked(blocked: readonly Blocked[]): boolean {
    const fingerprint = JSON.stringify(blocked);
    if (fingerprint === this.blockedFingerprint) return false;
    this.blockedFingerprint = fingerprint;
    this.blockedIds = new Set(blocked.flatMap(({ issuer, subject }) => (subject === null ? [] : [tokenKeyId(issuer, subject)])));
    this.blockedIssuers = new Set(blocked.flatMap(({ issuer, subject }) => (subject === null ? [issuer] : [])));
    this.forget();
    return true;
  }

  /** Groups of the store have changed: the name of a rule may mean another one now, or none. */
  groupsChanged(): void {
    const isConcerned = [...this.issuers.values()].some(({ trusted }) => trusted.rules.some(({ storedGroup }) => storedGroup !== null));
    if (isConcerned) this.forget();
  }

  /**
   * There were too many changes of keys to list. Returns those that accepted tokens have their permissions from, whose present state
   * must be reported next.
   */
  invalidate(): readonly string[] {
    this.changes += 1;
    return [...this.storedKeys];
  }

  /** Keys of the store have changed. */
  keysChanged(ids: readonly string[]): void {
    // A token that is being verified may have been given what one of them was before, and is not among the accepted ones yet.
    if (ids.length > 0) this.changes += 1;
    if (ids.some((id) => this.storedKeys.has(id))) this.forget();
  }

  /** Whether calls of a key must end, because its issuer or its subject is not accepted any more. Keys of other kinds are not concerned. */
  isGone(keyId: string): boolean {
    if (!keyId.startsWith(subjectPrefix)) return false;
    const name = keyId.slice(subjectPrefix.length, keyId.indexOf(":", subjectPrefix.length));
    const isTrusted = [...this.issuers.values()].some(({ trusted }) => trusted.name === name);
    return !isTrusted || this.isBlocked(name, keyId);
  }

  /** Undefined: this is no token of an issuer that is accepted here, and may be a key. */
  find(digest: string, token: string): Opened | Promise<Opened> | undefined {
    if (this.issuers.size === 0 || !token.startsWith(jwtStart)) return undefined;
    const known = this.known.get(digest);
    if (known !== undefined && known.expiresMs > this.ports.wallMs()) {
      return known.basis !== undefined && this.ports.isStale() && this.storedKeys.has(known.basis) ? "unavailable" : known;
    }
    if ((this.refusedUntil.get(digest) ?? 0) > this.ports.nowMs()) return null;
    const issuer = claimedIssuer(token) ?? "";
    if (!this.issuers.has(issuer)) return undefined;
    return this.pending.get(digest) ?? this.verified(digest, token, issuer);
  }

  private async verified(digest: string, token: string, issuer: string): Promise<Opened> {
    const verifying = this.verify(digest, token, issuer);
    this.pending.set(digest, verifying);
    try {
      return await verifying;
    } finally {
      this.pending.delete(digest);
    }
  }

  /**
   * If something changes meanwhile, the token is verified again: what it was given may be older than the change, such as a revocation,
   * which ends the calls that run then and no later ones.
   */
  private async verify(digest: string, token: string, issuer: string): Promise<Opened> {
    for (let round = 0; round < roundsMax; round++) {
      const { changes } = this;
      const trust = this.issuers.get(issuer);
      // It was removed meanwhile.
      if (trust === undefined) return null;
      const opened = await this.judge(digest, token, trust);
      if (opened === null || opened === "unavailable") return opened;
      if (changes !== this.changes) continue;
      this.known.set(digest, opened);
      return opened;
    }
    return "unavailable";
  }

  private async judge(digest: string, token: string, { trusted, keys }: Trust): Promise<SubjectKey | null | "unavailable"> {
    // Loaded when it is needed first, because most gateways accept no tokens.
    const { verifyJwt } = await import("./verify-jwt.ts");
    const { name, issuer, audience, lifetimeMs } = trusted;
    const verdict = await verifyJwt(token, { issuer, audience, keys, lifetimeMaxMs: lifetimeMs }, this.ports.wallMs());
    if (verdict.kind === "unavailable") return this.refuse(name, `the keys of the issuer are not known: ${verdict.reason}`, "unavailable");
    if (verdict.kind === "refused") return this.refuse(name, verdict.reason, null, digest);
    const id = tokenKeyId(name, verdict.subject);
    if (this.isBlocked(name, id)) return this.refuse(name, "its subject or its issuer is blocked", null, digest);
    const rule = trusted.rules.find(({ claims }) => matches(claims, verdict.claims));
    if (rule === undefined) return this.refuse(name, "no rule of the issuer matches its claims", null, digest);
    const base = await this.baseOf(rule);
    if (typeof base === "string") return this.refuse(name, base, null, digest);
    if (base === null) return this.refuse(name, "the store cannot be asked for the key of its rule", "unavailable");
    const group = rule.storedGroup === null ? (rule.key.group ?? base.group) : await this.ports.storedGroupId(rule.storedGroup);
    if (group === "unavailable") return this.refuse(name, "the store cannot be asked for the group of its rule", group);
    if (group === null && rule.storedGroup !== null) {
      return this.refuse(name, `the group '${rule.storedGroup}' of its rule does not exist: create it, or change the rule`, null, digest);
    }
    const expiresMs = Math.min(verdict.expiresMs, base.expiresMs ?? Number.POSITIVE_INFINITY);
    if (rule.storedKey !== null) this.storedKeys.add(base.id);
    const basis = base.id === "" ? {} : { basis: base.id, ...(rule.namesGroup ? {} : { inGroupOfBasis: true as const }) };
    return { ...base, ...basis, group, id, name: id.slice(subjectPrefix.length), expiresMs };
  }

  /** Whose permissions a token has; null while the store cannot be asked, and a text says why there is none. */
  private async baseOf({ key, storedKey }: TokenRule): Promise<Key | string | null> {
    if (storedKey === null) return key;
    const found = await this.ports.storedKey(storedKey);
    if (found === "unavailable") return null;
    const fix = "create it, or change the rule";
    if (found === null) return `the key '${storedKey}' of its rule is neither in the file nor in the store: ${fix}`;
    if (found.revokedMs !== null) return `the key '${storedKey}' of its rule was revoked: ${fix}`;
    if (found.expiresMs !== null && found.expiresMs <= this.ports.wallMs()) return `the key '${storedKey}' of its rule has expired: ${fix}`;
    const { id, name, models, operations, channels, expiresMs, limits, group, splits } = found;
    return { id, name, models, operations, channels, expiresMs, limits, group, splits };
  }

  private refuse<Result extends null | "unavailable">(
    issuer: string,
    reason: string,
    result: Result,
    digest: string | null = null,
  ): Result {
    const nowMs = this.ports.nowMs();
    if (digest !== null) this.refusedUntil.set(digest, nowMs + refusedMs);
    if (nowMs - this.refusalToldMs >= tellMs) {
      this.refusalToldMs = nowMs;
      this.ports.onRefused(issuer, reason);
    }
    return result;
  }

  private isBlocked(issuer: string, id: string): boolean {
    return this.blockedIssuers.has(issuer) || this.blockedIds.has(id);
  }

  private forget(): void {
    this.changes += 1;
    this.known.clear();
    this.storedKeys.clear();
    this.refusedUntil.clear();
  }

  private keysOf({ issuer, jwksUri }: TrustedIssuer, allowPrivate: boolean): KeySet {
    return new KeySet(new IssuerClient(issuer, allowPrivate, this.ports.fetchText), jwksUri, this.ports.nowMs);
  }
}

interface Trust {
  readonly trusted: TrustedIssuer;
  readonly keys: KeySet;
}

/** What a token opens: the key of its subject, until the token expires. */
interface SubjectKey extends Key {
  readonly expiresMs: number;
}

/** The id of a subject's key. Subjects that are too long, or hold what ids of limits must not, are named by their hash. */
export function tokenKeyId(issuer: string, subject: string): string {
  const id = `${subjectPrefix}${issuer}:${subject}`;
  if (/^[\x21-\x3d\x3f-\x7e]+$/.test(id) && id.length <= idCharactersMax && !subject.startsWith(hashPrefix)) return id;
  return `${subjectPrefix}${issuer}:${hashPrefix}${createHash("sha256").update(subject).digest("hex")}`;
}

function matches(wanted: ReadonlyMap<string, string>, claims: Readonly<Record<string, unknown>>): boolean {
  return [...wanted].every(([name, pattern]) => {
    const value = claimAt(claims, name);
    const texts = typeof value === "boolean" || typeof value === "number" ? [String(value)] : claimTexts(value);
    return texts.some((text) => matchesPattern(pattern, text));
  });
}

/** Who the token says it is from, before anything of it is verified: this chooses whose keys it is verified with. */
function claimedIssuer(token: string): string | null {
  const [, payload = "", signature] = token.split(".", 4);
  if (signature === undefined) return null;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, "base64url").toString());
    return isObject(claims) && typeof claims["iss"] === "string" ? claims["iss"] : null;
  } catch {
    return null;
  }
}

const hashPrefix = "sha256-";
/** As long as names in the store may be. */
const idCharactersMax = 200;
/** How every JWT begins: `{"` in base64. */
const jwtStart = "eyJ";
const knownMax = 50_000;
/** A refused token is not verified again for a moment. */
const refusedMs = 2_000;
const refusedMax = 20_000;
const tellMs = 1_000;
/** Each round needs another change. */
const roundsMax = 10;
