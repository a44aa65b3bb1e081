import type { Account, Actor, AdminToken, Role } from "../gateway/storage.ts";
import { isoMoment, isoOrNull } from "../usage/time-text.ts";
import type { ManageContext } from "./context.ts";
import { ManageError } from "./error.ts";
import { groupIdOf } from "./groups.ts";
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

/** Who gets access: a person with an account, or a machine with a token. */
export interface NewAccess {
  readonly name: string;
  readonly role: Role;
  /** The group of a group admin, by id or name. */
  readonly group?: string | undefined;
}

async function scopeFor(context: ManageContext, group: string | undefined): Promise<{ readonly group?: string } | ManageError> {
  const id = await groupIdOf(context, group ?? null);
  if (id instanceof ManageError) return id;
  return id === null ? {} : { group: id };
}

export async function createAccount(
  context: ManageContext,
  { name, role, group, password }: NewAccess & { readonly password: string },
  actor: Actor,
): Promise<Account | ManageError> {
  const problem = passwordProblem(password, name);
  if (problem !== null) return problem;
  const scope = await scopeFor(context, group);
  if (scope instanceof ManageError) return scope;
  return context.storage.accounts.create({ name, role, ...scope, passwordHash: await context.hashPassword(password) }, actor);
}

export interface AccountEdit {
  readonly role?: Role | undefined;
  /** The group of a group admin, by id or name. */
  readonly group?: string | undefined;
  readonly password?: string | undefined;
  readonly disabled?: boolean | undefined;
}

/** Every change ends the sessions of the account. */
export async function editAccount(
  context: ManageContext,
  name: string,
  { role, group, password, disabled }: AccountEdit,
  actor: Actor,
): Promise<Account | ManageError> {
  const { storage, hashPassword } = context;
  const problem = password === undefined ? null : passwordProblem(password, name);
  if (problem !== null) return problem;
  const scope = await scopeFor(context, group);
  if (scope instanceof ManageError) return scope;
  const change = {
    // Another role has no group. One that is given with it is refused: left out, it would make an admin of everything.
    ...(role === undefined ? {} : role === "group_admin" ? { role } : { role, group: null }),
    ...scope,
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
  context: ManageContext,
  { name, role, group }: NewAccess,
  actor: Actor,
): Promise<{ readonly created: AdminToken; readonly secret: string } | ManageError> {
  const scope = await scopeFor(context, group);
  if (scope instanceof ManageError) return scope;
  const secret = context.makeAdminToken().token;
  const mark = { digest: context.adminDigest(secret), last4: secret.slice(-4) };
  return { created: await context.storage.accounts.createToken({ name, role, ...scope, mark }, actor), secret };
}

export async function revokeAdminToken({ storage }: ManageContext, name: string, actor: Actor): Promise<void> {
  await storage.accounts.revokeToken(name, actor);
}

/** An account under the field names of the admin API. */
export function accountView({ name, role, group, createdMs, disabledMs }: Account) {
  return { name, role, ...(group === undefined ? {} : { group }), created_at: isoMoment(createdMs), disabled_at: isoOrNull(disabledMs) };
}

/** A token under the field names of the admin API, without its secret. */
export function tokenView({ name, role, group, last4, createdMs, revokedMs }: AdminToken) {
  return {
    name,
    role,
    ...(group === undefined ? {} : { group }),
    last4,
    created_at: isoMoment(createdMs),
    revoked_at: isoOrNull(revokedMs),
  };
}
