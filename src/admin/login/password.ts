/** People choose passwords, so they are stored with a slow hash: argon2id with the minimum parameters that OWASP recommends. */
const cost = { algorithm: "argon2id", memoryCost: 19_456, timeCost: 2 } as const;

export function hashPassword(password: string): Promise<string> {
  return Bun.password.hash(password, cost);
}

/** An account that does not exist takes as long: the password is compared with a dummy hash. */
export async function verifyPassword(password: string, hash: string | null): Promise<boolean> {
  try {
    const matches = await Bun.password.verify(password, hash ?? dummyHash);
    return matches && hash !== null;
  } catch {
    // The hash has an unknown format.
    return false;
  }
}

/** Of a password that nobody knows, with the same cost. Made beforehand, because making one takes 19 MB and as long as a login. */
export const dummyHash =
  "$argon2id$v=19$m=19456,t=2,p=1$hu7USGSeHFziX/sZUbo9IZCrKyazYImUoFdeuHdWCx4$QJPeK6uUTDAgIpLpykdBdvZU2D16oYECuWn+bdFF2xA";
