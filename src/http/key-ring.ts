import { timingSafeEqual } from "node:crypto";
import type { Key } from "../keys/key.ts";

/**
 * The keys that open the gateway, by digest only: a token is hashed with a pepper of this process before anything is
 * looked up, so neither memory nor timing tells one token from another.
 */
export class KeyRing {
  private readonly entries = new Map<string, { readonly digest: Buffer; readonly key: Key }>();

  constructor(keys: Iterable<{ readonly key: Key; readonly token: string }>) {
    for (const { key, token } of keys) {
      const digest = digestOf(token);
      this.entries.set(digest, { digest: Buffer.from(digest), key });
    }
  }

  find(token: string): Key | null {
    const digest = digestOf(token);
    const entry = this.entries.get(digest);
    given.write(digest, "latin1");
    const matches = timingSafeEqual(given, entry?.digest ?? nobody);
    return matches && entry !== undefined ? entry.key : null;
  }
}

const pepper = new Bun.CryptoHasher("sha256", crypto.getRandomValues(Buffer.alloc(32)));

function digestOf(token: string): string {
  return pepper.copy().update(token).digest("hex");
}

const digestLength = 64;
/** Where the digest at hand is compared; finding a key never waits, so one place serves all. */
const given = Buffer.alloc(digestLength);
const nobody = Buffer.alloc(digestLength);
