import {
  StorageError,
  type Account,
  type AccountStorage,
  type Actor,
  type AdminToken,
  type Role,
  type Session,
} from "../../gateway/storage.ts";
import type { HashedToken } from "../../keys/stored-key.ts";
import { differences, type TableContext, change } from "./change.ts";
import type { Database } from "../database.ts";
import { sql, type Sql } from "../sql.ts";
import { checkName, checkText, isValidName } from "../stored-text.ts";

interface NewAccount {
  readonly name: string;
  readonly role: Role;
  readonly passwordHash: string;
}

export class AccountTable implements AccountStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async count(): Promise<number> {
    return countAccounts(this.database, sql`1 = 1`);
  }

  async list(): Promise<readonly Account[]> {
    const rows = await this.database.all<AccountRow>(sql`select name, role, created_ms, disabled_ms from accounts order by name`);
    return rows.flatMap((row) => {
      const account = accountFrom(row);
      if (account === null) this.context.damaged?.({ table: "accounts", id: row.name, column: "role" });
      return account === null ? [] : [account];
    });
  }

  async create(account: NewAccount, by: Actor): Promise<Account> {
    checkAccount(account);
    return change(this.database, this.context, by, async (transaction) => {
      if ((await find(transaction, account.name)) !== undefined) {
        throw new StorageError("conflict", "An account with this name already exists: choose another.");
      }
      const value = await insertAccount(transaction, account, this.context.wallMs());
      return { value, audit: { action: "account.create", subject: account.name, detail: { role: account.role } } };
    });
  }

  async change(
    name: string,
    changes: { readonly role?: Role; readonly passwordHash?: string; readonly disabled?: boolean },
    by: Actor,
  ): Promise<Account> {
    const { role, passwordHash, disabled } = changes;
    checkText("The hash of a password", passwordHash ?? null, hashCharactersMax);
    return change(this.database, this.context, by, async (transaction) => {
      const before = await requireAccount(transaction, name);
      const wasDisabled = before.disabledMs !== null;
      const isDisabled = disabled ?? wasDisabled;
      const after: Account = {
        ...before,
        role: role ?? before.role,
        disabledMs: isDisabled ? (before.disabledMs ?? this.context.wallMs()) : null,
      };
      if (after.role !== "admin" || isDisabled) await rejectLastAdmin(transaction, before);
      await transaction.run(sql`update accounts set role = ${after.role}, disabled_ms = ${after.disabledMs} where name = ${name}`);
      if (passwordHash !== undefined) {
        await transaction.run(sql`update accounts set password_hash = ${passwordHash} where name = ${name}`);
      }
      const changed = differences({ role: before.role, disabled: wasDisabled }, { role: after.role, disabled: isDisabled });
      const detail = { ...changed, ...(passwordHash === undefined ? {} : { password: "changed" }) };
      if (Object.keys(detail).length === 0) return { value: after, audit: null };
      await transaction.run(sql`delete from sessions where account = ${name}`);
      return { value: after, audit: { action: "account.change", subject: name, detail } };
    });
  }

  async remove(name: string, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction) => {
      const account = await requireAccount(transaction, name);
      await rejectLastAdmin(transaction, account);
      await transaction.run(sql`delete from sessions where account = ${name}`);
      await transaction.run(sql`delete from accounts where name = ${name}`);
      return { value: null, audit: { action: "account.remove", subject: name, detail: { role: account.role } } };
    });
  }

  async passwordHash(name: string): Promise<{ readonly hash: string; readonly account: Account } | null> {
    const row = await find(this.database, name);
    const account = row === undefined ? null : accountFrom(row);
    return row === undefined || account === null ? null : { hash: row.password_hash, account };
  }

  async openSession({ digest, account, csrf, createdMs, seenMs }: Session): Promise<void> {
    await this.database.transaction(async (transaction) => {
      await transaction.run(sql`
        insert into sessions (digest, account, csrf, created_ms, seen_ms) values (${digest}, ${account}, ${csrf}, ${createdMs}, ${seenMs})`);
      await transaction.run(sql`
        delete from sessions where account = ${account} and digest not in (
          select digest from sessions where account = ${account} order by seen_ms desc, created_ms desc limit ${sessionsMax})`);
    });
  }

  async session(digest: string): Promise<Session | null> {
    const [row] = await this.database.all<SessionRow>(sql`
      select s.digest, s.account, s.csrf, s.created_ms, s.seen_ms, a.role from sessions s join accounts a on a.name = s.account
      where s.digest = ${digest} and a.disabled_ms is null`);
    if (row === undefined || !isRole(row.role)) return null;
    const { account, csrf, role } = row;
    return { digest, account, role, csrf, createdMs: row.created_ms, seenMs: row.seen_ms };
  }

  async seen(digest: string, atMs: number): Promise<void> {
    await this.database.run(sql`update sessions set seen_ms = ${atMs} where digest = ${digest} and seen_ms < ${atMs}`);
  }

  async endSession(digest: string): Promise<void> {
    await this.database.run(sql`delete from sessions where digest = ${digest}`);
  }

  async sweepSessions(seenBeforeMs: number, openedBeforeMs: number): Promise<void> {
    await this.database.run(sql`delete from sessions where seen_ms < ${seenBeforeMs} or created_ms < ${openedBeforeMs}`);
  }

  async createToken(
    { name, role, mark }: { readonly name: string; readonly role: Role; readonly mark: HashedToken },
    by: Actor,
  ): Promise<AdminToken> {
    checkName("The name of a token", name);
    checkName("The digest of a token", mark.digest);
    checkRole(role);
    return change(this.database, this.context, by, async (transaction) => {
      // A revoked token can be replaced by a new one of the same name. The audit log still has the old one.
      await transaction.run(sql`delete from admin_tokens where name = ${name} and revoked_ms is not null`);
      const taken = await transaction.all(sql`select name from admin_tokens where name = ${name} or digest = ${mark.digest}`);
      if (taken.length > 0) throw new StorageError("conflict", "A token with this name already exists: choose another.");
      const createdMs = this.context.wallMs();
      await transaction.run(sql`
        insert into admin_tokens (digest, name, role, last4, created_ms)
        values (${mark.digest}, ${name}, ${role}, ${mark.last4}, ${createdMs})`);
      const value = { name, role, last4: mark.last4, createdMs, revokedMs: null };
      return { value, audit: { action: "token.create", subject: name, detail: { role, last4: mark.last4 } } };
    });
  }

  async tokens(): Promise<readonly AdminToken[]> {
    const rows = await this.database.all<TokenRow>(
      sql`select name, role, last4, created_ms, revoked_ms from admin_tokens order by created_ms, name`,
    );
    return rows.flatMap((row) => {
      const token = tokenFrom(row);
      if (token === null) this.context.damaged?.({ table: "admin_tokens", id: row.name, column: "role" });
      return token === null ? [] : [token];
    });
  }

  /** Revoked tokens are not found. */
  async token(digest: string): Promise<AdminToken | null> {
    const [row] = await this.database.all<TokenRow>(sql`
      select name, role, last4, created_ms, revoked_ms from admin_tokens where digest = ${digest} and revoked_ms is null`);
    return row === undefined ? null : tokenFrom(row);
  }

  async revokeToken(name: string, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction) => {
      const known = await transaction.all(sql`select name from admin_tokens where name = ${name}`);
      if (known.length === 0) throw new StorageError("missing", "There is no such token.");
      const nowMs = this.context.wallMs();
      const revoked = await transaction.run(sql`update admin_tokens set revoked_ms = ${nowMs} where name = ${name} and revoked_ms is null`);
      return { value: null, audit: revoked === 0 ? null : { action: "token.revoke", subject: name, detail: {} } };
    });
  }

  async setBootstrap(digest: string, expiresMs: number): Promise<void> {
    await this.database.run(sql`
      insert into bootstrap (id, digest, expires_ms, used_ms) values (1, ${digest}, ${expiresMs}, null)
      on conflict (id) do update set digest = excluded.digest, expires_ms = excluded.expires_ms, used_ms = null`);
  }

  async useBootstrap(digest: string, nowMs: number, account: NewAccount, by: Actor): Promise<boolean> {
    checkAccount(account);
    const open = sql`id = 1 and digest = ${digest} and used_ms is null and expires_ms > ${nowMs}`;
    // Checked outside of the change first, so that guessing a code does not block other writers.
    if ((await this.database.all(sql`select id from bootstrap where ${open}`)).length === 0) return false;
    return change(this.database, this.context, by, async (transaction) => {
      if ((await countAccounts(transaction, sql`1 = 1`)) > 0) return { value: false, audit: null };
      if ((await transaction.run(sql`update bootstrap set used_ms = ${nowMs} where ${open}`)) !== 1) return { value: false, audit: null };
      await insertAccount(transaction, account, this.context.wallMs());
      return { value: true, audit: { action: "account.bootstrap", subject: account.name, detail: { role: account.role } } };
    });
  }
}

interface AccountRow {
  readonly name: string;
  readonly role: string;
  readonly password_hash: string;
  readonly created_ms: number;
  readonly disabled_ms: number | null;
}

interface SessionRow {
  readonly account: string;
  readonly role: string;
  readonly csrf: string;
  readonly created_ms: number;
  readonly seen_ms: number;
}

interface TokenRow {
  readonly name: string;
  readonly role: string;
  readonly last4: string;
  readonly created_ms: number;
  readonly revoked_ms: number | null;
}

/** Per account. The session that was idle for longest is deleted first. */
const sessionsMax = 50;
const hashCharactersMax = 1_000;

async function find(database: Database, name: string): Promise<AccountRow | undefined> {
  if (!isValidName(name)) return undefined;
  const [row] = await database.all<AccountRow>(
    sql`select name, role, password_hash, created_ms, disabled_ms from accounts where name = ${name}`,
  );
  return row;
}

async function requireAccount(database: Database, name: string): Promise<Account> {
  const row = await find(database, name);
  if (row === undefined) throw new StorageError("missing", "There is no such account.");
  const account = accountFrom(row);
  if (account === null) throw new StorageError("damaged", `Account ${name} has a role that this version does not know.`);
  return account;
}

async function countAccounts(database: Database, where: Sql): Promise<number> {
  const [row] = await database.all<{ readonly count: number }>(sql`select count(*) as count from accounts where ${where}`);
  return row?.count ?? 0;
}

/** If accounts exist but none of them is an active administrator, nobody could log in to change that. */
async function rejectLastAdmin(transaction: Database, account: Account): Promise<void> {
  if (account.role !== "admin" || account.disabledMs !== null) return;
  const others = sql`role = 'admin' and disabled_ms is null and name <> ${account.name}`;
  if ((await countAccounts(transaction, others)) > 0) return;
  throw new StorageError("conflict", "This is the last administrator: create another one first.");
}

async function insertAccount(transaction: Database, { name, role, passwordHash }: NewAccount, createdMs: number): Promise<Account> {
  await transaction.run(
    sql`insert into accounts (name, role, password_hash, created_ms) values (${name}, ${role}, ${passwordHash}, ${createdMs})`,
  );
  return { name, role, createdMs, disabledMs: null };
}

function checkAccount({ name, role, passwordHash }: NewAccount): void {
  checkName("The name of an account", name);
  checkRole(role);
  checkText("The hash of a password", passwordHash, hashCharactersMax);
}

function checkRole(role: string): void {
  if (!isRole(role)) throw new StorageError("invalid", "The role must be `admin` or `viewer`.");
}

function isRole(text: string): text is Role {
  return text === "admin" || text === "viewer";
}

function accountFrom({ name, role, created_ms, disabled_ms }: AccountRow): Account | null {
  return isRole(role) ? { name, role, createdMs: created_ms, disabledMs: disabled_ms } : null;
}

function tokenFrom({ name, role, last4, created_ms, revoked_ms }: TokenRow): AdminToken | null {
  return isRole(role) ? { name, role, last4, createdMs: created_ms, revokedMs: revoked_ms } : null;
}
