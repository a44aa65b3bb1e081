import { isFailure, type Failure } from "../../operations/failure.ts";
import type { AccessToken } from "./token-request.ts";

/**
 * Keeps access tokens until they expire. A token is renewed ahead of that, in the background, by one request at a time; while that
 * fails, the old one is used as long as it is valid.
 */
export class TokenCache {
  private readonly entries = new Map<string, TokenEntry>();

  constructor(private readonly nowMs: () => number) {}

  /** The token of an identity, at once where a valid one is known. `obtain` never throws. */
  token(identity: string, obtain: () => Promise<AccessToken | Failure>): string | Promise<string | Failure> {
    const entry = this.entryOf(identity);
    const nowMs = this.nowMs();
    if (entry.value !== null && nowMs < entry.expiresMs) {
      if (nowMs >= entry.renewMs && entry.pending === null) void this.renew(entry, obtain);
      return entry.value;
    }
    return entry.pending ?? this.renew(entry, obtain);
  }

  /** The upstream refused this token: it is not used again. */
  forget(identity: string, value: string): void {
    const entry = this.entries.get(identity);
    if (entry?.value === value) entry.value = null;
  }

  /** Every token that is known, and the parts of access keys, so that they can be removed from texts. */
  get known(): readonly string[] {
    return [...this.entries.values()].flatMap(({ value }) =>
      value === null ? [] : [value, ...(value.includes(":") ? value.split(":") : [])],
    );
  }

  private entryOf(identity: string): TokenEntry {
    const known = this.entries.get(identity);
    const entry = known ?? { value: null, expiresMs: 0, renewMs: 0, pending: null };
    if (known === undefined && this.entries.size >= identitiesMax) {
      const oldest = this.entries.keys().next();
      if (oldest.done !== true) this.entries.delete(oldest.value);
    }
    if (known === undefined) this.entries.set(identity, entry);
    return entry;
  }

  private renew(entry: TokenEntry, obtain: () => Promise<AccessToken | Failure>): Promise<string | Failure> {
    const pending = obtain().then((token) => {
      const nowMs = this.nowMs();
      entry.pending = null;
      if (isFailure(token)) {
        entry.renewMs = nowMs + retryMs;
        return token;
      }
      const { value, lifetimeMs } = token;
      const aheadMs = Math.min(renewAheadMs, lifetimeMs / 5);
      entry.value = value;
      entry.renewMs = nowMs + lifetimeMs - aheadMs;
      entry.expiresMs = nowMs + lifetimeMs - Math.min(marginMs, lifetimeMs / 10);
      return value;
    });
    entry.pending = pending;
    return pending;
  }
}

interface TokenEntry {
  value: string | null;
  /** Until when it is sent, and from when on another one is requested. */
  expiresMs: number;
  renewMs: number;
  /** The request for the next one. */
  pending: Promise<string | Failure> | null;
}

const renewAheadMs = 300_000;
/** A token must still be valid when the upstream reads it. */
const marginMs = 10_000;
/** After a failed renewal, while the old token is valid. */
const retryMs = 15_000;
/** Identities change with the configuration; the oldest is forgotten first. */
const identitiesMax = 1024;
