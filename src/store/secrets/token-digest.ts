/** How tokens are kept and looked for: as a keyed hash, in hex. Without the key nobody can try tokens on a stolen store. */
export type TokenDigest = (token: string) => string;

export function makeTokenDigest(key: Uint8Array): TokenDigest {
  const keyed = new Bun.CryptoHasher("sha256", key);
  return (token) => keyed.copy().update(token).digest("hex");
}
