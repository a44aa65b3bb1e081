import {
  StorageError,
  type Account,
  type AccountStorage,
  type Actor,
  type AdminToken,
  type ProvidedPerson,
  type Role,
  type Session,
  roles,
} from "../../gateway/storage.ts";
import type { HashedToken } from "../../keys/stored-key.ts";
import { differences, type TableContext, change } from "./change.ts";
import type { Database } from "../database.ts";
import { sql, type Sql } from "../sql.ts";
import { isClockSteady } from "../steady-clock.ts";
import { parsedJson } from "../stored-json.ts";
import { checkName, checkText, isValidName } from "../stored-text.ts";

interface NewAccount {
  readonly name: string;
  readonly role: Role;
  readonly group?: string;
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
    const rows = await this.database.all<AccountRow>(sql`select name, role, group_id, created_ms, disabled_ms from accounts order by name`);
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
      const { role, group } = account;
      const detail = { role, ...(group === undefined ? {} : { group }) };
      return { value, audit: { action: "account.create", subject: account.name, detail } };
    });
  }

  async change(
    name: string,
    changes: { readonly role?: Role; readonly group?: string | null; readonly passwordHash?: string; readonly disabled?: boolean },
    by: Actor,
  ): Promise<Account> {
    const { role, passwordHash, disabled } = changes;
    checkText("The hash of a password", passwordHash ?? null, hashCharactersMax);
    return change(this.database, this.context, by, async (transaction) => {
      const before = await requireAccount(transaction, name);
      const wasDisabled = before.disabledMs !== null;
      const isDisabled = disabled ?? wasDisabled;
      const { group: groupBefore = null, ...rest } = before;
      const group = changes.group === undefined ? groupBefore : changes.group;
      const after: Account = {
        ...rest,
        ...(group === null ? {} : { group }),
        role: role ?? before.role,
        disabledMs: isDisabled ? (before.disabledMs ?? this.context.wallMs()) : null,
      };
      checkRole(after);
      if (after.role !== "admin" || isDisabled) await rejectLastAdmin(transaction, before);
      await transaction.run(sql`
        update accounts set role = ${after.role}, group_id = ${group}, disabled_ms = ${after.disabledMs} where name = ${name}`);
      if (passwordHash !== undefined) {
        await transaction.run(sql`update accounts set password_hash = ${passwordHash} where name = ${name}`);
      }
      const changed = differences(
        { role: before.role, group: groupBefore, disabled: wasDisabled },
        { role: after.role, group, disabled: isDisabled },
      );
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

  async openSession(session: Session): Promise<void> {
    const { digest, account, issuer, subject, csrf, createdMs, seenMs } = session;
    // Those of an account may change, and are looked up each time.
    const [role, group] = issuer === null ? [null, null] : [session.role, session.group ?? null];
    // Not by the name, which somebody else may have chosen.
    const own = issuer === null ? sql`account = ${account} and issuer is null` : sql`issuer = ${issuer} and subject = ${subject}`;
    await this.database.transaction(async (transaction) => {
      await transaction.run(sql`
        insert into sessions (digest, account, csrf, created_ms, seen_ms, role, group_id, issuer, subject)
        values (${digest}, ${account}, ${csrf}, ${createdMs}, ${seenMs}, ${role}, ${group}, ${issuer}, ${subject})`);
      await transaction.run(sql`
        delete from sessions where ${own} and digest not in (
          select digest from sessions where ${own} order by seen_ms desc, created_ms desc limit ${sessionsMax})`);
    });
  }

  async ownsName(name: string, { issuer, subject }: ProvidedPerson): Promise<boolean> {
    const setting = `${ownedNamePrefix}${name}`;
    const nowMs = Math.trunc(this.context.wallMs());
    return this.database.transaction(async (transaction) => {
      // The row that every change locks first: of two people, the first has the name.
      await transaction.run(sql`update revision set value = value where id = 1`);
      const [row] = await transaction.all<{ readonly value: string }>(sql`select value from settings where name = ${setting}`);
      const owner = row === undefined ? null : nameOwnerFrom(row.value);
      const isOwn = owner !== null && owner.issuer === issuer && owner.subject === subject;
      // Nobody can sign in with another provider than that of the configuration: what its people had is free.
      if (owner !== null && owner.issuer === issuer && !isOwn) {
        // What was written while the clock was ahead tells no more than what an earlier version wrote.
        const isKnown = owner.seenMs !== null && owner.seenMs <= nowMs;
        if (!isKnown) await writeNameOwner(transaction, setting, { ...owner, seenMs: nowMs });
        if (!isKnown || nowMs - owner.seenMs < nameKeptMs || !(await isClockSteady(transaction, nowMs))) return false;
      }
      await writeNameOwner(transaction, setting, { issuer, subject, seenMs: nowMs });
      if (!isOwn) await releaseOldNames(transaction, { issuer, subject });
      return true;
    });
  }

  async session(digest: string): Promise<Session | null> {
    const [row] = await this.database.all<SessionRow>(sql`
      select s.digest, s.account, s.csrf, s.created_ms, s.seen_ms, s.issuer, s.subject, coalesce(s.role, a.role) as role,
        coalesce(s.group_id, a.group_id) as group_id
      from sessions s left join accounts a on a.name = s.account and s.issuer is null
      where s.digest = ${digest} and a.disabled_ms is null`);
    // The role is missing if the account is.
    const role = row?.role ?? "";
    if (row === undefined || !isRole(role)) return null;
    const { account, issuer, subject, csrf } = row;
    return { digest, account, issuer, subject, role, ...groupOf(row), csrf, createdMs: row.created_ms, seenMs: row.seen_ms };
  }

  async seen(digest: string, atMs: number): Promise<void> {
    await this.database.run(sql`update sessions set seen_ms = ${atMs} where digest = ${digest} and seen_ms < ${atMs}`);
  }

  async endSession(digest: string): Promise<boolean> {
    const ended = await this.database.all(sql`delete from sessions where digest = ${digest} returning digest`);
    return ended.length > 0;
  }

  endSessions(account: string, by: Actor): Promise<number> {
    return change(this.database, this.context, by, async (transaction) => {
      const ended = await transaction.run(sql`
        delete from sessions where account = ${account} or (issuer, subject) in (
          select issuer, subject from sessions where account = ${account} and issuer is not null)`);
      return { value: ended, audit: ended === 0 ? null : { action: "account.end_sessions", subject: account, detail: { ended } } };
    });
  }

  async sweepSessions(seenBeforeMs: number, openedBeforeMs: number): Promise<void> {
    await this.database.run(sql`delete from sessions where seen_ms < ${seenBeforeMs} or created_ms < ${openedBeforeMs}`);
  }

  localUntilMs(): Promise<number> {
    return readLocalUntil(this.database);
  }

  async allowLocal(untilMs: number, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction) => {
      const beforeMs = await readLocalUntil(transaction);
      await transaction.run(sql`
        insert into settings (name, value) values (${localUntilName}, ${String(untilMs)})
        on conflict (name) do update set value = excluded.value`);
      const detail = differences({ until_ms: beforeMs }, { until_ms: untilMs });
      return { value: null, audit: { action: "account.allow_local", subject: "local accounts", detail } };
    });
  }

  async createToken(
    { name, role, group, mark }: { readonly name: string; readonly role: Role; readonly group?: string; readonly mark: HashedToken },
    by: Actor,
  ): Promise<AdminToken> {
    checkName("The name of a token", name);
    checkName("The digest of a token", mark.digest);
    checkRole({ role, ...(group === undefined ? {} : { group }) });
    return change(this.database, this.context, by, async (transaction) => {
      // A revoked token can be replaced by a new one of the same name. The audit log still has the old one.
      await transaction.run(sql`delete from admin_tokens where name = ${name} and revoked_ms is not null`);
      const taken = await transaction.all(sql`select name from admin_tokens where name = ${name} or digest = ${mark.digest}`);
      if (taken.length > 0) throw new StorageError("conflict", "A token with this name already exists: choose another.");
      const createdMs = this.context.wallMs();
      await transaction.run(sql`
        insert into admin_tokens (digest, name, role, group_id, last4, created_ms)
        values (${mark.digest}, ${name}, ${role}, ${group ?? null}, ${mark.last4}, ${createdMs})`);
      const scope = group === undefined ? {} : { group };
      const value = { name, role, ...scope, last4: mark.last4, createdMs, revokedMs: null };
      return { value, audit: { action: "token.create", subject: name, detail: { role, ...scope, last4: mark.last4 } } };
    });
  }

  async tokens(): Promise<readonly AdminToken[]> {
    const rows = await this.database.all<TokenRow>(
      sql`select name, role, group_id, last4, created_ms, revoked_ms from admin_tokens order by created_ms, name`,
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
      select name, role, group_id, last4, created_ms, revoked_ms from admin_tokens where digest = ${digest} and revoked_ms is null`);
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
  readonly group_id: string | null;
  readonly password_hash: string;
  readonly created_ms: number;
  readonly disabled_ms: number | null;
}

interface SessionRow {
  readonly account: string;
  readonly issuer: string | null;
  readonly subject: string | null;
  readonly role: string | null;
  readonly group_id: string | null;
  readonly csrf: string;
  readonly created_ms: number;
  readonly seen_ms: number;
}

interface TokenRow {
  readonly name: string;
  readonly role: string;
  readonly group_id: string | null;
  readonly last4: string;
  readonly created_ms: number;
  readonly revoked_ms: number | null;
}

interface NameOwner extends ProvidedPerson {
  /** When they last signed in by this name; null if an earlier version wrote it, which did not say. */
  readonly seenMs: number | null;
}

function nameOwnerFrom(value: string): NameOwner | null {
  const [issuer, subject, seenMs] = ownerValues(value);
  if (typeof issuer !== "string" || typeof subject !== "string") return null;
  return { issuer, subject, seenMs: typeof seenMs === "number" ? seenMs : null };
}

function ownerValues(value: string): readonly unknown[] {
  const parsed = parsedJson(value);
  return Array.isArray(parsed) ? parsed : [];
}

async function writeNameOwner(transaction: Database, setting: string, { issuer, subject, seenMs }: NameOwner): Promise<void> {
  await transaction.run(sql`
    insert into settings (name, value) values (${setting}, ${JSON.stringify([issuer, subject, seenMs])})
    on conflict (name) do update set value = excluded.value`);
}

/** Whoever signs in by another name each time must not fill the store: those that they used longest ago are free again. */
async function releaseOldNames(transaction: Database, { issuer, subject }: ProvidedPerson): Promise<void> {
  const start = `${JSON.stringify([issuer, subject]).slice(0, -1)},`;
  const rows = await transaction.all<{ readonly name: string; readonly value: string }>(sql`
    select name, value from settings where name like ${`${ownedNamePrefix}%`}
      and substr(value, 1, length(cast(${start} as text))) = cast(${start} as text)`);
  const seenMs = (value: string): number => nameOwnerFrom(value)?.seenMs ?? 0;
  const old = rows.toSorted((one, other) => seenMs(other.value) - seenMs(one.value)).slice(namesMax);
  for (const { name } of old) await transaction.run(sql`delete from settings where name = ${name}`);
}

const ownedNamePrefix = "name ";
/** How long a name stays with a person who does not sign in. */
const nameKeptMs = 90 * 86_400_000;
/** Per person. */
const namesMax = 5;

const localUntilName = "local_accounts_until_ms";
/** Per account, or person of a provider. The session that was idle for longest is deleted first. */
const sessionsMax = 50;
const hashCharactersMax = 1_000;

async function readLocalUntil(database: Database): Promise<number> {
  const [row] = await database.all<{ readonly value: string }>(sql`select value from settings where name = ${localUntilName}`);
  const untilMs = Number(row?.value ?? 0);
  return Number.isFinite(untilMs) ? untilMs : 0;
}

async function find(database: Database, name: string): Promise<AccountRow | undefined> {
  if (!isValidName(name)) return undefined;
  const [row] = await database.all<AccountRow>(
    sql`select name, role, group_id, password_hash, created_ms, disabled_ms from accounts where name = ${name}`,
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

async function insertAccount(transaction: Database, { name, role, group, passwordHash }: NewAccount, createdMs: number): Promise<Account> {
  await transaction.run(sql`
    insert into accounts (name, role, group_id, password_hash, created_ms)
    values (${name}, ${role}, ${group ?? null}, ${passwordHash}, ${createdMs})`);
  return { name, role, ...(group === undefined ? {} : { group }), createdMs, disabledMs: null };
}

function checkAccount(account: NewAccount): void {
  checkName("The name of an account", account.name);
  checkRole(account);
  checkText("The hash of a password", account.passwordHash, hashCharactersMax);
}

/** Who has a group must not have a role that ignores it, and the other way round. */
function checkRole({ role, group }: { readonly role: string; readonly group?: string }): void {
  if (!isRole(role)) throw new StorageError("invalid", `The role must be one of ${roles.join(", ")}.`);
  if (group !== undefined) checkName("The group of an administrator", group);
  if ((role === "group_admin") === (group !== undefined)) return;
  throw new StorageError("invalid", "The role group_admin needs a group, and no other role has one.");
}

function isRole(text: string): text is Role {
  return roles.some((role) => role === text);
}

function groupOf({ group_id }: { readonly group_id: string | null }): { readonly group?: string } {
  return group_id === null ? {} : { group: group_id };
}

/** Null also for a group admin without a group, who must not see everything. */
function accountFrom(row: AccountRow): Account | null {
  const { name, role, created_ms, disabled_ms } = row;
  if (!isRole(role) || (role === "group_admin") !== (row.group_id !== null)) return null;
  return { name, role, ...groupOf(row), createdMs: created_ms, disabledMs: disabled_ms };
}

function tokenFrom(row: TokenRow): AdminToken | null {
  const { name, role, last4, created_ms, revoked_ms } = row;
  if (!isRole(role) || (role === "group_admin") !== (row.group_id !== null)) return null;
  return { name, role, ...groupOf(row), last4, createdMs: created_ms, revokedMs: revoked_ms };
}
