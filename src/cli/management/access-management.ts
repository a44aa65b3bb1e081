import type { Actor } from "../../gateway/storage.ts";
import {
  accountView,
  createAccount,
  createAdminToken,
  editAccount,
  removeAccount,
  revokeAdminToken,
  tokenView,
  type AccountEdit,
  type NewAccess,
} from "../../manage/accounts.ts";
import { blockedView, blockSubject, unblockSubject } from "../../manage/blocked-subjects.ts";
import type { RunningAdminApi } from "../admin-api.ts";
import type { OpenStore } from "../command-context.ts";
import { CommandError, exitCodes, orThrow } from "../command-error.ts";
import { placeOf } from "./api-paths.ts";

/** Who may use the admin API, and whose tokens are accepted in place of keys. */
export interface AccessManagement {
  accounts(): Promise<readonly AccountView[]>;
  createAccount(account: NewAccess & { readonly password: string }): Promise<AccountView>;
  editAccount(name: string, edit: AccountEdit): Promise<AccountView>;
  removeAccount(name: string): Promise<void>;
  /** Returns how many there were. */
  endSessions(name: string): Promise<number>;
  /** Zero: not any more. */
  allowLocalAccounts(untilMs: number): Promise<void>;
  adminTokens(): Promise<readonly AdminTokenView[]>;
  createAdminToken(token: NewAccess): Promise<{ readonly view: AdminTokenView; readonly secret: string }>;
  revokeAdminToken(name: string): Promise<void>;

  blockedSubjects(): Promise<readonly BlockedSubjectView[]>;
  /** Null: all subjects of the issuer. */
  blockSubject(issuer: string, subject: string | null): Promise<void>;
  unblockSubject(issuer: string, subject: string | null): Promise<void>;
}

export type AccountView = ReturnType<typeof accountView>;
export type AdminTokenView = ReturnType<typeof tokenView>;
export type BlockedSubjectView = ReturnType<typeof blockedView>;

export function storeAccessManagement(store: OpenStore, actor: Actor): AccessManagement {
  const { accounts, blockedSubjects } = store.storage;
  return {
    accounts: async () => (await accounts.list()).map(accountView),
    createAccount: async (account) => accountView(orThrow(await createAccount(store, account, actor))),
    editAccount: async (name, edit) => accountView(orThrow(await editAccount(store, name, edit, actor))),
    removeAccount: (name) => removeAccount(store, name, actor),
    endSessions: (name) => accounts.endSessions(name, actor),
    allowLocalAccounts: async (untilMs) => {
      await accounts.allowLocal(untilMs, actor);
    },
    adminTokens: async () => (await accounts.tokens()).map(tokenView),
    createAdminToken: async (token) => {
      const { created, secret } = orThrow(await createAdminToken(store, token, actor));
      return { view: tokenView(created), secret };
    },
    revokeAdminToken: (name) => revokeAdminToken(store, name, actor),

    blockedSubjects: async () => (await blockedSubjects.list()).map(blockedView),
    blockSubject: async (issuer, subject) => {
      orThrow(await blockSubject(store, issuer, subject, actor));
    },
    unblockSubject: (issuer, subject) => unblockSubject(store, issuer, subject, actor),
  };
}

export function apiAccessManagement(api: RunningAdminApi): AccessManagement {
  return {
    accounts: async () => (await api.json<{ readonly accounts: readonly AccountView[] }>("GET", "/accounts")).accounts,
    createAccount: (account) => api.json("POST", "/accounts", account),
    editAccount: (name, edit) => api.json("PATCH", placeOf("accounts", name), edit),
    removeAccount: (name) => api.json("DELETE", placeOf("accounts", name)),
    endSessions: async (name) => (await api.json<{ readonly ended: number }>("POST", "/sessions/end", { name })).ended,
    // This is the way back in when the provider does not work, for those who have the machine.
    allowLocalAccounts: () => Promise.reject(new CommandError(localOnly, exitCodes.usage)),
    adminTokens: async () => (await api.json<{ readonly tokens: readonly AdminTokenView[] }>("GET", "/tokens")).tokens,
    createAdminToken: async (token) => {
      const { token: secret, ...view } = await api.json<AdminTokenView & { readonly token: string }>("POST", "/tokens", token);
      return { view, secret };
    },
    revokeAdminToken: (name) => api.json("DELETE", placeOf("tokens", name)),

    blockedSubjects: async () => (await api.json<{ readonly blocked: readonly BlockedSubjectView[] }>("GET", "/issuers/blocked")).blocked,
    blockSubject: (issuer, subject) => api.json("POST", `${placeOf("issuers", issuer)}/block`, { subject }),
    unblockSubject: (issuer, subject) => api.json("POST", `${placeOf("issuers", issuer)}/unblock`, { subject }),
  };
}

const localOnly =
  "Local accounts are allowed on the machine of the gateway alone: run sluice accounts allow-local where the store can be reached, with " +
  "--config, and without --url and SLUICE_ADMIN_URL.";
