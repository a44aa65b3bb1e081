import { timingSafeEqual } from "node:crypto";
import type { Opened } from "../gateway/admission/key-cache.ts";
import type { Key } from "../keys/key.ts";

/**
 * The keys of the configuration, by digest only: a token is hashed with a secret of this installation before it is looked up, so
 * neither memory nor timing reveals a token. Other keys are looked up by `others`.
 */
export class KeyRing {
  private readonly entries = new Map<string, { readonly digest: Buffer; readonly key: Key }>();
  private readonly pepper: Bun.CryptoHasher;

  constructor(
    keys: Iterable<{ readonly key: Key; readonly token: string }>,
    pepper: Uint8Array,
    private readonly others: (digest: string, token: string) => Opened | Promise<Opened> = () => null,
  ) {
    this.pepper = new Bun.CryptoHasher("sha256", Buffer.from(pepper));
    for (const { key, token } of keys) {
      const digest = this.digestOf(token);
      this.entries.set(digest, { digest: Buffer.from(digest), key });
    }
  }

  find(token: string): Opened | Promise<Opened> {
    const digest = this.digestOf(token);
    const entry = this.entries.get(digest);
    given.write(digest, "latin1");
    const matches = timingSafeEqual(given, entry?.digest ?? nobody);
    return matches && entry !== undefined ? entry.key : this.others(digest, token);
  }

  private digestOf(token: string): string {
    return this.pepper.copy().update(token).digest("hex");
  }
}

const digestLength = 64;
/** Buffer for the comparison. One is enough, because the lookup in the configuration is synchronous. */
const given = Buffer.alloc(digestLength);
const nobody = Buffer.alloc(digestLength);
