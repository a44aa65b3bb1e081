import { StorageError, type Actor, type GroupStorage } from "../../gateway/storage.ts";
import { groupLevelsMax, type Group } from "../../keys/group.ts";
import { GroupTree, parentProblem } from "../../keys/group-tree.ts";
import type { GroupChange, NewGroup, StoredGroup } from "../../keys/stored-group.ts";
import type { Database } from "../database.ts";
import { joinSql, sql, type Sql } from "../sql.ts";
import { checkName, isValidName } from "../stored-text.ts";
import { change, readRevision, type TableContext } from "./change.ts";
import { changedGroup, checkGroupChange, emptyGroup, groupDifferences, groupFrom, type GroupColumns, type GroupRow } from "./group-row.ts";

/** Groups of keys. A deleted one keeps its row, so that what it used still has a name. */
export class GroupTable implements GroupStorage {
  constructor(
    private readonly database: Database,
    private readonly context: TableContext,
  ) {}

  async create(id: string, group: NewGroup, inFile: readonly Group[], by: Actor): Promise<StoredGroup> {
    checkName("The id of a group", id);
    checkGroupChange(group);
    return change(this.database, this.context, by, async (transaction, revision) => {
      const nowMs = this.context.wallMs();
      const columns = changedGroup(emptyGroup, group, nowMs);
      await this.#rejectTakenNames(transaction, [id, columns.name], null);
      await this.#rejectParent(transaction, null, columns, inFile);
      await transaction.run(sql`
        insert into key_groups (id, name, kind, parent, note, limits, key_defaults, group_defaults, frozen_ms, created_ms, revision)
        values (${id}, ${columns.name}, ${columns.kind}, ${columns.parent}, ${columns.note}, ${columns.limits}, ${columns.key_defaults},
          ${columns.group_defaults}, ${columns.frozen_ms}, ${nowMs}, ${revision})`);
      const { name, kind, parent, limits, defaults, frozen = false } = group;
      const detail = { name, kind, parent, limits, defaults, ...(frozen ? { frozen } : {}) };
      const audit = { action: "group.create", subject: id, detail, group: id };
      return { value: readable(await requireRow(transaction, id)), audit };
    });
  }

  async get(id: string): Promise<StoredGroup | null> {
    return isValidName(id) ? this.#first(sql`id = ${id}`) : null;
  }

  async find(idOrName: string): Promise<StoredGroup | null> {
    return isValidName(idOrName) ? this.#first(sql`(id = ${idOrName} or name = ${idOrName})`) : null;
  }

  async list(): Promise<readonly StoredGroup[]> {
    return this.#readable(await rowsWhere(this.database, [isLive]));
  }

  async names(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const wanted = new Set(ids);
    const rows =
      wanted.size === 0
        ? []
        : await this.database.all<{ readonly id: string; readonly name: string }>(sql`select id, name from key_groups`);
    return new Map(rows.flatMap(({ id, name }) => (wanted.has(id) ? [[id, name] as const] : [])));
  }

  async change(id: string, changes: GroupChange, inFile: readonly Group[], by: Actor): Promise<StoredGroup> {
    checkGroupChange(changes);
    const row = await change(this.database, this.context, by, async (transaction, revision) => {
      const before = await requireRow(transaction, id);
      const columns = changedGroup(before, changes, this.context.wallMs());
      if (columns.name !== before.name) await this.#rejectTakenNames(transaction, [columns.name], id);
      if (columns.parent !== before.parent) await this.#rejectParent(transaction, id, columns, inFile);
      await transaction.run(sql`
        update key_groups set name = ${columns.name}, kind = ${columns.kind}, parent = ${columns.parent}, note = ${columns.note},
          limits = ${columns.limits}, key_defaults = ${columns.key_defaults}, group_defaults = ${columns.group_defaults},
          frozen_ms = ${columns.frozen_ms}, revision = ${revision}
        where id = ${id}`);
      const detail = groupDifferences(before, columns);
      const audit = Object.keys(detail).length === 0 ? null : { action: actionOf(before, columns), subject: id, detail, group: id };
      return { value: await requireRow(transaction, id), audit };
    });
    return readable(row);
  }

  async remove(id: string, by: Actor): Promise<void> {
    await change(this.database, this.context, by, async (transaction, revision) => {
      const { name, parent } = await requireRow(transaction, id);
      const [key] = await transaction.all<{ readonly name: string }>(
        sql`select name from keys where group_id = ${id} and revoked_ms is null limit 1`,
      );
      if (key !== undefined) throw new StorageError("conflict", `Key ${key.name} is in this group: move or revoke its keys first.`);
      const [child] = await rowsWhere(transaction, [isLive, sql`parent = ${id}`]);
      if (child !== undefined) throw new StorageError("conflict", `Group ${child.name} is below this group: move or delete it first.`);
      const account = await transaction.all(sql`
        select name from accounts where group_id = ${id} union all select name from admin_tokens where group_id = ${id} and revoked_ms is null`);
      if (account.length > 0) throw new StorageError("conflict", "Accounts or tokens belong to this group: remove or change them first.");
      await transaction.run(sql`update key_groups set deleted_ms = ${this.context.wallMs()}, revision = ${revision} where id = ${id}`);
      // It is in the log of the group above: nobody manages a group that does not exist.
      return { value: null, audit: { action: "group.delete", subject: id, detail: { name, parent }, group: parent ?? id } };
    });
  }

  async restore(id: string, inFile: readonly Group[], by: Actor): Promise<StoredGroup> {
    return change(this.database, this.context, by, async (transaction, revision) => {
      const [row] = isValidName(id) ? await rowsWhere(transaction, [sql`id = ${id}`]) : [];
      if (row === undefined) throw new StorageError("missing", "There is no such group.");
      const { name, parent } = row;
      if (row.deleted_ms === null) throw new StorageError("conflict", `Group ${name} is not deleted.`);
      await this.#rejectTakenNames(transaction, [name], id);
      if (inFile.some((group) => group.name === name || group.id === name)) throw nameTaken();
      await this.#rejectParent(transaction, id, row, inFile);
      await transaction.run(sql`update key_groups set deleted_ms = null, revision = ${revision} where id = ${id}`);
      const audit = { action: "group.restore", subject: id, detail: { name, parent }, group: id };
      return { value: readable(await requireRow(transaction, id)), audit };
    });
  }

  async changedSince(since: number): Promise<{ readonly revision: number; readonly groups: readonly StoredGroup[] | null }> {
    const revision = await readRevision(this.database);
    if (revision === since) return { revision, groups: null };
    const older =
      revision < since ? [] : await this.database.all(sql`select 1 as changed from key_groups where revision > ${since} limit 1`);
    // Groups change rarely, and all of them fit into memory.
    return { revision, groups: older.length === 0 && revision > since ? null : await this.list() };
  }

  #readable(rows: readonly GroupRow[]): readonly StoredGroup[] {
    return rows.flatMap((row) => {
      const group = groupFrom(row);
      if (!("damaged" in group)) return [group];
      this.context.damaged?.({ table: "key_groups", id: row.id, column: group.damaged });
      return [];
    });
  }

  async #first(where: Sql): Promise<StoredGroup | null> {
    const [row] = await rowsWhere(this.database, [isLive, where]);
    return row === undefined ? null : readable(row);
  }

  /** Ids and names share one namespace, so that commands can take either. */
  async #rejectTakenNames(transaction: Database, names: readonly string[], except: string | null): Promise<void> {
    for (const name of names) {
      const holders = await rowsWhere(transaction, [sql`(id = ${name} or (name = ${name} and deleted_ms is null))`]);
      if (holders.every(({ id }) => id === except)) continue;
      throw nameTaken();
    }
  }

  /** All changes are serialized, so that two of them cannot make a circle together. */
  async #rejectParent(transaction: Database, id: string | null, { parent }: GroupColumns, inFile: readonly Group[]): Promise<void> {
    if (parent === null) return;
    const tree = new GroupTree([...inFile, ...this.#readable(await rowsWhere(transaction, [isLive]))]);
    switch (parentProblem(tree, id, parent)) {
      case null:
        return;
      case "missing":
        throw new StorageError("invalid", "There is no group with the id of the parent.");
      case "circle":
        throw new StorageError("invalid", "A group cannot be below itself.");
      case "too_deep":
        throw new StorageError("invalid", `Groups have at most ${groupLevelsMax} levels.`);
    }
  }
}

function nameTaken(): StorageError {
  return new StorageError("conflict", "A group with this name or id already exists: choose another.");
}

const isLive = sql`deleted_ms is null`;

/** Freezing stops calls, so that it must be easy to find. */
function actionOf(before: GroupColumns, after: GroupColumns): string {
  if ((before.frozen_ms === null) === (after.frozen_ms === null)) return "group.change";
  return after.frozen_ms === null ? "group.unfreeze" : "group.freeze";
}

async function rowsWhere(database: Database, where: readonly Sql[]): Promise<readonly GroupRow[]> {
  return database.all<GroupRow>(sql`
    select id, name, kind, parent, note, limits, key_defaults, group_defaults, frozen_ms, created_ms, deleted_ms from key_groups
    where ${joinSql([sql`1 = 1`, ...where], sql` and `)} order by id`);
}

async function requireRow(database: Database, id: string): Promise<GroupRow> {
  const [row] = isValidName(id) ? await rowsWhere(database, [isLive, sql`id = ${id}`]) : [];
  if (row === undefined) throw new StorageError("missing", "There is no such group.");
  return row;
}

function readable(row: GroupRow): StoredGroup {
  const group = groupFrom(row);
  if (!("damaged" in group)) return group;
  throw new StorageError(
    "damaged",
    `The ${group.damaged} of group ${row.id} cannot be read by this version. Set them again, or run the version that wrote them.`,
  );
}
