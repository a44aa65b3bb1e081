import { unguessableLength } from "./guessable.ts";
import { invalid, type Refusal } from "../refusal.ts";

/** Passwords are chosen by people, so they are stored in a way that is slow to guess: argon2id with OWASP's least cost. */
const cost = { algorithm: "argon2id", memoryCost: 19_456, timeCost: 2 } as const;

export const passwordCharactersMin = 12;
export const passwordCharactersMax = 1024;

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

/** Why a password may not be used by this account, or null. */
export function passwordProblem(password: string, name: string): Refusal | null {
  if (password.length < passwordCharactersMin) {
    return invalid(
      "password",
      `The password must have at least ${passwordCharactersMin} characters. A few unrelated words make a good one.`,
    );
  }
  if (password.length > passwordCharactersMax) {
    return invalid("password", `The password may have at most ${passwordCharactersMax} characters.`);
  }
  if (unguessableLength(password, [name]) < unguessableMin) {
    return invalid(
      "password",
      "The password is too easy to guess: it is mostly the name, a well-known word or a row. Choose a few unrelated words.",
    );
  }
  return null;
}

const unguessableMin = 6;
