/** People choose passwords, so they are stored with a slow hash: argon2id with the minimum parameters that OWASP recommends. */
const cost = { algorithm: "argon2id", memoryCost: 19_456, timeCost: 2 } as const;

export function hashPassword(password: string): Promise<string> {
  return Bun.password.hash(password, cost);
}

/** An account that does not exist takes as long: the password is compared with a dummy hash. */
export async function verifyPassword(password: string, hash: string | null): Promise<boolean> {
  dummyHash ??= hashPassword(crypto.randomUUID());
  try {
    const matches = await Bun.password.verify(password, hash ?? (await dummyHash));
    return matches && hash !== null;
  } catch {
    // The hash has an unknown format.
    return false;
  }
}

let dummyHash: Promise<string> | undefined;

/** Makes the dummy hash beforehand, so that the first attempt does not take longer than others. */
export async function prepareVerification(): Promise<void> {
  dummyHash ??= hashPassword(crypto.randomUUID());
  await dummyHash;
}
