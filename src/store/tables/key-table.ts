import { StorageError, type Actor, type ChangedKey, type KeyQuery, type KeyStorage, type OpenedKey } from "../../gateway/storage.ts";
import { fileGroupPrefix } from "../../keys/group.ts";
import { isNewKeyId } from "../../keys/key.ts";
import { unknownLast4, type KeyChange, type NewKey, type StoredKey, type HashedToken } from "../../keys/stored-key.ts";
import { change, readRevision, type TableContext } from "./change.ts";
import type { Database } from "../database.ts";
import { changedColumns, checkKeyChange, emptyColumns, keyDifferences } from "./key-change.ts";
import { keyFrom, readKeys, type KeyRow } from "./key-row.ts";
import { joinSql, sql, type Sql, batches } from "../sql.ts";
import { checkName, likePattern, isValidName, pageRows, searchCharactersMax } from "../stored-text.ts";
import { isOneOf } from "../text-list.ts";

export class KeyTable implements KeyStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async create(id: string, key: NewKey, token: HashedToken, by: Actor): Promise<StoredKey> {
    if (!isNewKeyId(id))
      throw new StorageError("invalid", "The id of a key must have 1 to 200 letters, digits, dots, hyphens or underscores.");
    checkKeyChange(key);
    const columns = changedColumns(emptyColumns, key);
    return change(this.database, this.context, by, async (transaction, revision) => {
      const nowMs = this.context.wallMs();
      await rejectTakenNames(transaction, [id, columns.name], null);
      const last4 = await freeToken(transaction, null, token, { nowMs, revision });
      await requireGroup(transaction, columns.group_id);
      await transaction.run(sql`
        insert into keys (id, name, owner, note, scopes, limits, splits, expires_ms, group_id, created_ms, revision)
        values (${id}, ${columns.name}, ${columns.owner}, ${columns.note}, ${columns.scopes}, ${columns.limits}, ${columns.splits},
          ${columns.expires_ms}, ${columns.group_id}, ${nowMs}, ${revision})`);
      await insertToken(transaction, id, { ...token, last4 }, nowMs);
      const { name, owner, models, operations, channels, expiresMs, splits, limits, group } = key;
      const detail = { name, owner, group, models, operations, channels, expiresMs, splits, limits, last4 };
      return { value: requireReadable(await requireRows(transaction, id)), audit: { action: "key.create", subject: id, detail, group } };
    });
  }

  async get(id: string): Promise<StoredKey | null> {
    return isValidName(id) ? this.#first(sql`keys.id = ${id}`) : null;
  }

  async find(idOrName: string): Promise<StoredKey | null> {
    // A key's name is never the id of another key, so that at most one matches.
    return isValidName(idOrName) ? this.#first(sql`(keys.id = ${idOrName} or keys.name = ${idOrName})`) : null;
  }

  async list({ search, revoked, groups = null, after, limit }: KeyQuery): Promise<readonly StoredKey[]> {
    const where: Sql[] = revoked ? [] : [sql`keys.revoked_ms is null`];
    if (search !== null) where.push(searchCondition(search, this.database.engine));
    if (groups !== null) where.push(isOneOf(sql`keys.group_id`, groups, this.database.engine));
    const keysMax = pageRows(limit);
    const found: StoredKey[] = [];
    let last = after;
    for (let round = 0; round < roundsMax; round++) {
      const page = await readKeys(this.database, {
        where: last === null ? where : [...where, sql`keys.id > ${last}`],
        order: "id",
        keysMax: keysMax - found.length,
      });
      const asked = keysMax - found.length;
      for (const rows of page) {
        const key = keyFrom(rows);
        if ("damaged" in key) this.context.damaged?.({ table: "keys", id: rows[0].id, column: key.damaged });
        else found.push(key);
        last = rows[0].id;
      }
      if (page.length < asked || found.length === keysMax) break;
    }
    return found;
  }

  async count(): Promise<number> {
    const [row] = await this.database.all<{ readonly count: number }>(
      sql`select count(*) as count from (select 1 from keys limit ${countMax}) as some_keys`,
    );
    return row?.count ?? 0;
  }

  async change(id: string, changes: KeyChange, by: Actor): Promise<StoredKey> {
    checkKeyChange(changes);
    const key = await change(this.database, this.context, by, async (transaction, revision) => {
      const [row] = await requireRows(transaction, id);
      const columns = changedColumns(row, changes);
      const detail = keyDifferences(row, columns);
      if (columns.name !== row.name) await rejectTakenNames(transaction, [columns.name], id);
      if (columns.group_id !== row.group_id) await requireGroup(transaction, columns.group_id);
      await transaction.run(sql`
        update keys set name = ${columns.name}, owner = ${columns.owner}, note = ${columns.note}, scopes = ${columns.scopes},
          limits = ${columns.limits}, splits = ${columns.splits}, expires_ms = ${columns.expires_ms}, group_id = ${columns.group_id},
          revision = ${revision}
        where id = ${id}`);
      // A key that is put into its first group is in the log of that one: it has no other whose administrators could see it.
      const group = row.group_id ?? columns.group_id;
      const audit = Object.keys(detail).length === 0 ? null : { action: "key.change", subject: id, detail, group };
      return { value: await requireRows(transaction, id), audit };
    });
    return requireReadable(key);
  }

  async rotate(id: string, token: HashedToken, overlapMs: number, by: Actor): Promise<StoredKey> {
    if (!Number.isSafeInteger(overlapMs) || overlapMs < 0 || overlapMs > overlapMsMax) {
      throw new StorageError("invalid", "Two tokens of a key can overlap for at most 7 days.");
    }
    const key = await change(this.database, this.context, by, async (transaction, revision) => {
      const [row] = await requireRows(transaction, id);
      if (row.revoked_ms !== null) throw new StorageError("conflict", `Key ${id} is revoked for good: create another one.`);
      const nowMs = this.context.wallMs();
      const endMs = nowMs + overlapMs;
      const last4 = await freeToken(transaction, id, token, { nowMs, revision });
      await transaction.run(sql`delete from key_tokens where key_id = ${id} and expires_ms <= ${nowMs}`);
      await transaction.run(sql`
        delete from key_tokens where key_id = ${id} and digest not in (
          select digest from key_tokens where key_id = ${id} order by created_ms desc limit ${tokensMax - 1})`);
      await transaction.run(sql`
        update key_tokens set expires_ms = ${endMs} where key_id = ${id} and (expires_ms is null or expires_ms > ${endMs})`);
      await insertToken(transaction, id, { ...token, last4 }, nowMs);
      await transaction.run(sql`update keys set revision = ${revision} where id = ${id}`);
      const detail = { last4, before: row.token_last4, overlapMs };
      return { value: await requireRows(transaction, id), audit: { action: "key.rotate", subject: id, detail, group: row.group_id } };
    });
    return requireReadable(key);
  }

  async revoke(id: string, by: Actor): Promise<StoredKey> {
    const [known] = await requireRows(this.database, id);
    if (known.revoked_ms !== null) return requireReadable(await requireRows(this.database, id));
    // Revoking must work on a damaged row as well, so that the row is only parsed afterwards.
    const key = await change(this.database, this.context, by, async (transaction, revision) => {
      const nowMs = this.context.wallMs();
      const revoked = await transaction.run(
        sql`update keys set revoked_ms = ${nowMs}, revision = ${revision} where id = ${id} and revoked_ms is null`,
      );
      const rows = await requireRows(transaction, id);
      const { name, group_id: group } = rows[0];
      return { value: rows, audit: revoked === 0 ? null : { action: "key.revoke", subject: id, detail: { name }, group } };
    });
    return requireReadable(key);
  }

  async byDigest(digest: string): Promise<OpenedKey | null> {
    if (!isValidName(digest)) return null;
    const where = [sql`keys.id = (select key_id from key_tokens where digest = ${digest})`];
    const [rows] = await readKeys(this.database, { where, order: "id", keysMax: 1 });
    const token = rows?.find((row) => row.digest === digest);
    return rows === undefined || token === undefined ? null : { key: requireReadable(rows), tokenExpiresMs: token.token_expires_ms };
  }

  async changedSince(since: number, max: number): Promise<{ readonly revision: number; readonly keys: readonly ChangedKey[] | "all" }> {
    // The revision is read first, so that changes made from now on are found again by the next call.
    const revision = await readRevision(this.database);
    if (revision === since) return { revision, keys: [] };
    // The store was replaced by an older backup.
    if (revision < since) return { revision, keys: "all" };
    const changed = await readKeys(this.database, { where: [sql`keys.revision > ${since}`], order: "revision", keysMax: max + 1 });
    if (changed.length > max) return { revision, keys: "all" };
    return { revision, keys: changed.map((rows) => this.#changed(rows)) };
  }

  async current(ids: readonly string[]): Promise<readonly ChangedKey[]> {
    const found = new Map<string, ChangedKey>();
    for (const someIds of batches(ids.filter(isValidName), (id) => sql`${id}`)) {
      const keys = await readKeys(this.database, { where: [sql`keys.id in (${someIds})`], order: "id", keysMax: ids.length });
      for (const rows of keys) found.set(rows[0].id, this.#changed(rows));
    }
    return ids.map((id) => found.get(id) ?? { id, key: null, revoked: false, tokens: [] });
  }

  /** For a key that cannot be read, `key` is null: it may have been revoked, so that caches must forget it. */
  #changed(rows: readonly [KeyRow, ...KeyRow[]]): ChangedKey {
    const { id, revoked_ms } = rows[0];
    const revoked = revoked_ms !== null;
    const key = keyFrom(rows);
    if ("damaged" in key) {
      this.context.damaged?.({ table: "keys", id, column: key.damaged });
      return { id, key: null, revoked, tokens: [] };
    }
    const tokens = rows.flatMap(({ digest, token_expires_ms }) => (digest === null ? [] : [{ digest, expiresMs: token_expires_ms }]));
    return { id, key, revoked, tokens };
  }

  async used(lastMs: ReadonlyMap<string, number>): Promise<void> {
    const sorted = [...lastMs].toSorted(([a], [b]) => (a < b ? -1 : 1));
    for (const rows of batches(sorted, ([id, ms]) => sql`(${id}, cast(${minuteOf(ms)} as bigint))`)) {
      await this.database.transaction(async (transaction) => {
        await transaction.run(sql`
          with latest(id, at_ms) as (values ${rows})
          update keys set last_used_ms = latest.at_ms from latest
          where keys.id = latest.id and (keys.last_used_ms is null or keys.last_used_ms < latest.at_ms)`);
      });
    }
  }

  async #first(where: Sql): Promise<StoredKey | null> {
    const [rows] = await readKeys(this.database, { where: [where], order: "id", keysMax: 1 });
    return rows === undefined ? null : requireReadable(rows);
  }
}

/** How many pages of nothing but damaged rows `list` skips. */
const roundsMax = 20;
/** Per key. Each rotation adds a token, and rotating in a loop must not make lookups slow. */
const tokensMax = 8;
const overlapMsMax = 7 * 86_400_000;
const minuteMs = 60_000;

function minuteOf(ms: number): number {
  return Math.floor(ms / minuteMs) * minuteMs;
}

async function requireRows(database: Database, id: string): Promise<readonly [KeyRow, ...KeyRow[]]> {
  const [rows] = isValidName(id) ? await readKeys(database, { where: [sql`keys.id = ${id}`], order: "id", keysMax: 1 }) : [];
  if (rows === undefined) throw new StorageError("missing", "There is no such key.");
  return rows;
}

function requireReadable(rows: readonly [KeyRow, ...KeyRow[]]): StoredKey {
  const key = keyFrom(rows);
  if (!("damaged" in key)) return key;
  throw new StorageError(
    "damaged",
    `The ${key.damaged} of key ${rows[0].id} cannot be read by this version. Set them again, or run the version that wrote them.`,
  );
}

/** Ids and names share one namespace, so that commands can take either. */
async function rejectTakenNames(transaction: Database, names: readonly string[], except: string | null): Promise<void> {
  for (const name of names) {
    const holders = await transaction.all<{ readonly id: string }>(sql`select id from keys where id = ${name} or name = ${name}`);
    if (holders.every(({ id }) => id === except)) continue;
    throw new StorageError("conflict", "A key with this name or id already exists: choose another.");
  }
}

/**
 * Makes a token one that nothing has, so that the key can get it. It may be one that the key had before, or one of another key that has
 * expired; that key then counts as changed, because processes may know its tokens. Returns how the token ends.
 */
async function freeToken(
  transaction: Database,
  keyId: string | null,
  { digest, last4 }: HashedToken,
  { nowMs, revision }: { readonly nowMs: number; readonly revision: number },
): Promise<string> {
  checkName("The digest of a token", digest);
  const [known] = await transaction.all<{ readonly key_id: string; readonly last4: string; readonly expires_ms: number | null }>(
    sql`select key_id, last4, expires_ms from key_tokens where digest = ${digest}`,
  );
  if (known === undefined) return last4;
  const isFree = known.expires_ms !== null && (known.key_id === keyId || known.expires_ms <= nowMs);
  if (!isFree) throw new StorageError("conflict", "This token already opens a key: use another.");
  await transaction.run(sql`delete from key_tokens where digest = ${digest}`);
  if (known.key_id !== keyId) await transaction.run(sql`update keys set revision = ${revision} where id = ${known.key_id}`);
  return last4 === unknownLast4 ? known.last4 : last4;
}

/** Groups of the configuration are not in the store: their ids are checked by whoever knows the configuration. */
async function requireGroup(transaction: Database, group: string | null): Promise<void> {
  if (group === null || group.startsWith(fileGroupPrefix)) return;
  const known = await transaction.all(sql`select id from key_groups where id = ${group} and deleted_ms is null`);
  if (known.length === 0) throw new StorageError("invalid", "There is no such group.");
}

async function insertToken(transaction: Database, id: string, { digest, last4 }: HashedToken, nowMs: number): Promise<void> {
  await transaction.run(sql`insert into key_tokens (digest, key_id, last4, created_ms) values (${digest}, ${id}, ${last4}, ${nowMs})`);
}

/** `like` ignores the case of ASCII in SQLite, where `lower` does no more and would take half of the time with a million keys. */
function searchCondition(search: string, engine: Database["engine"]): Sql {
  if (search.length > searchCharactersMax) {
    throw new StorageError("invalid", `The search text must have at most ${searchCharactersMax} characters.`);
  }
  const lowered = (text: Sql): Sql => (engine === "sqlite" ? text : sql`lower(${text})`);
  const pattern = sql`${lowered(sql`cast(${likePattern(search)} as text)`)} escape '!'`;
  const columns = [sql`keys.id`, sql`keys.name`, sql`keys.owner`, sql`keys.note`];
  return sql`(${joinSql(
    columns.map((column) => sql`${lowered(column)} like ${pattern}`),
    sql` or `,
  )})`;
}

/** Nobody needs the exact number beyond this, and counting a million rows is slow. */
const countMax = 1_000;
