import { join } from "node:path";
import { openStore, type Store } from "../../src/app/durable.ts";
import type { Actor } from "../../src/gateway/storage.ts";
import { limitsOf, type LimitFields, type RateLimitFields } from "../../src/limits/limit-fields.ts";
import type { NewKey, HashedToken } from "../../src/keys/stored-key.ts";
import { makeToken } from "../../src/keys/token.ts";
import { nanosOf } from "../../src/usage/dollars.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { eventually } from "./eventually.ts";
import type { Gateway } from "./gateway.ts";
import { newKey } from "./new-key.ts";

/** The store of a gateway that runs, opened beside it, as the command line does: to make keys, and to read receipts. */
export async function openKeys(gateway: Pick<Gateway, "directory">): Promise<Keys> {
  return new Keys(await openStore({ store: "sqlite", dataDir: join(gateway.directory, "data") }, null, true));
}

export interface MadeKey {
  readonly id: string;
  readonly token: string;
}

export class Keys implements AsyncDisposable {
  constructor(readonly store: Store) {}

  /** A key that is good for everything unless told otherwise. */
  async make(given: KeySpec = {}): Promise<MadeKey> {
    const { token, publicId } = newToken();
    await this.store.storage.keys.create(publicId, keyOf(given), this.mark(token), tester);
    return { id: publicId, token };
  }

  /** A key that somebody has already. */
  async bring(token: string, given: KeySpec = {}): Promise<MadeKey> {
    const { publicId } = newToken();
    await this.store.storage.keys.create(publicId, keyOf(given), this.mark(token), tester);
    return { id: publicId, token };
  }

  /** The token that replaces the one before. */
  async rotate(id: string, overlapMs: number): Promise<string> {
    const { token } = newToken();
    await this.store.storage.keys.rotate(id, this.mark(token), overlapMs, tester);
    return token;
  }

  async revoke(id: string): Promise<void> {
    await this.store.storage.keys.revoke(id, tester);
  }

  /** The receipt of a call, once it has reached the store. */
  async receipt(requestId: string | null, withinMs = 5_000): Promise<Receipt> {
    let found: Receipt | null = null;
    const arrived = async (): Promise<boolean> => (found = await this.store.storage.receipts.find(requestId ?? "")) !== null;
    await eventually(`the receipt of ${requestId}`, arrived, withinMs);
    return found!;
  }

  /** All receipts of a key, once there are so many. */
  async receipts(keyId: string, count: number, withinMs = 5_000): Promise<readonly Receipt[]> {
    let found: readonly Receipt[] = [];
    const query = { keyId, model: null, channel: null, state: null, sinceMs: null, untilMs: null, before: null, limit: 1_000 };
    const arrived = async (): Promise<boolean> => (found = await this.store.storage.receipts.list(query)).length >= count;
    await eventually(`${count} receipts of ${keyId}`, arrived, withinMs);
    return found;
  }

  mark(token: string): HashedToken {
    return { digest: this.store.masterKey.digest(token), last4: token.slice(-4) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.database.close();
  }
}

/** Limits are in the words of the configuration file, with money in dollars. */
export type KeySpec = Partial<Omit<NewKey, "limits">> & { readonly limits?: LimitFields };

export function newToken(): { readonly token: string; readonly publicId: string } {
  return makeToken((count) => crypto.getRandomValues(new Uint8Array(count)));
}

/** Billionths of a dollar. */
export function dollars(amount: number): number {
  return nanosOf(amount) ?? 0;
}

/** What the store has counted as spent of a group's budget. */
export async function spentNanosOf({ storage }: Store, group: string): Promise<number> {
  return (await storage.receipts.payments(group, null)).reduce((sum, { nanos }) => sum + nanos, 0);
}

let names = 0;

function keyOf({ limits = {}, ...given }: KeySpec): NewKey {
  return {
    ...newKey,
    name: `key-${(names += 1)}`,
    limits: limitsOf({ ...inNanos(limits), per_model: limits.per_model?.map(inNanos) }),
    ...given,
  };
}

function inNanos<Words extends RateLimitFields>(words: Words): Words {
  return words.budget_usd === undefined ? words : { ...words, budget_usd: dollars(words.budget_usd) };
}

const tester: Actor = { kind: "cli", name: "tester" };
