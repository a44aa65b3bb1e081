import type { Account, Actor, AdminToken, Role } from "../gateway/storage.ts";
import { isoMoment, isoOrNull } from "../usage/time-text.ts";
import type { ManageContext } from "./context.ts";
import { ManageError } from "./error.ts";
import { unguessableLength } from "./guessable.ts";

/** Names of accounts and tokens, in lower case, of characters that are safe wherever they are shown. */
export const accountNamePattern = /^[a-z0-9][a-z0-9._@+-]{0,63}$/;

/** The name as it is stored, or null if it is invalid. */
export function accountName(text: string): string | null {
  const name = text.trim().toLowerCase();
  return accountNamePattern.test(name) ? name : null;
}

const passwordCharactersMin = 12;
const passwordCharactersMax = 1024;
/** Characters that must be left without names, well-known words and sequences. */
const unguessableMin = 6;

/** Why an account may not use a password. */
export function passwordProblem(password: string, name: string): ManageError | null {
  const problem = (message: string): ManageError => new ManageError("invalid_value", message, "password");
  if (password.length < passwordCharactersMin) {
    return problem(`The password must have at least ${passwordCharactersMin} characters. A few unrelated words make a good one.`);
  }
  if (password.length > passwordCharactersMax) return problem(`The password may have at most ${passwordCharactersMax} characters.`);
  if (unguessableLength(password, [name]) < unguessableMin) {
    return problem(
      "The password is too easy to guess: it is mostly the name, a well-known word or a sequence. Choose a few unrelated words.",
    );
  }
  return null;
}

export async function createAccount(
  { storage, hashPassword }: ManageContext,
  { name, role, password }: { readonly name: string; readonly role: Role; readonly password: string },
  actor: Actor,
): Promise<Account | ManageError> {
  const problem = passwordProblem(password, name);
  if (problem !== null) return problem;
  return storage.accounts.create({ name, role, passwordHash: await hashPassword(password) }, actor);
}

export interface AccountEdit {
  readonly role?: Role | undefined;
  readonly password?: string | undefined;
  readonly disabled?: boolean | undefined;
}

/** Every change ends the sessions of the account. */
export async function editAccount(
  { storage, hashPassword }: ManageContext,
  name: string,
  { role, password, disabled }: AccountEdit,
  actor: Actor,
): Promise<Account | ManageError> {
  const problem = password === undefined ? null : passwordProblem(password, name);
  if (problem !== null) return problem;
  const change = {
    ...(role === undefined ? {} : { role }),
    ...(disabled === undefined ? {} : { disabled }),
    ...(password === undefined ? {} : { passwordHash: await hashPassword(password) }),
  };
  return storage.accounts.change(name, change, actor);
}

export async function removeAccount({ storage }: ManageContext, name: string, actor: Actor): Promise<void> {
  await storage.accounts.remove(name, actor);
}

/** `secret` is the token itself, which cannot be shown again later. */
export async function createAdminToken(
  { storage, makeAdminToken, adminDigest }: ManageContext,
  { name, role }: { readonly name: string; readonly role: Role },
  actor: Actor,
): Promise<{ readonly created: AdminToken; readonly secret: string }> {
  const secret = makeAdminToken().token;
  const mark = { digest: adminDigest(secret), last4: secret.slice(-4) };
  return { created: await storage.accounts.createToken({ name, role, mark }, actor), secret };
}

export async function revokeAdminToken({ storage }: ManageContext, name: string, actor: Actor): Promise<void> {
  await storage.accounts.revokeToken(name, actor);
}

/** An account under the field names of the admin API. */
export function accountView({ name, role, createdMs, disabledMs }: Account) {
  return { name, role, created_at: isoMoment(createdMs), disabled_at: isoOrNull(disabledMs) };
}

/** A token under the field names of the admin API, without its secret. */
export function tokenView({ name, role, last4, createdMs, revokedMs }: AdminToken) {
  return { name, role, last4, created_at: isoMoment(createdMs), revoked_at: isoOrNull(revokedMs) };
}
