/** Passwords are chosen by people, so they are stored in a way that is slow to guess: argon2id with OWASP's least cost. */
const cost = { algorithm: "argon2id", memoryCost: 19_456, timeCost: 2 } as const;

export function hashPassword(password: string): Promise<string> {
  return Bun.password.hash(password, cost);
}

/** Takes as long for somebody who does not exist: it is compared with the hash of nothing anybody knows. */
export async function verifyPassword(password: string, hash: string | null): Promise<boolean> {
  nobody ??= hashPassword(crypto.randomUUID());
  try {
    const matches = await Bun.password.verify(password, hash ?? (await nobody));
    return matches && hash !== null;
  } catch {
    // A hash of an unknown form opens nothing.
    return false;
  }
}

let nobody: Promise<string> | undefined;

/** Makes the hash for strangers beforehand, so that not even the first guess takes longer. */
export async function prepareVerification(): Promise<void> {
  nobody ??= hashPassword(crypto.randomUUID());
  await nobody;
}
