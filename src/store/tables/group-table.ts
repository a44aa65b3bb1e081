import { StorageError, type Actor, type ChangedGroups, type GroupStorage } from "../../gateway/storage.ts";
import { groupLevelsMax, type Group, type GroupChain } from "../../keys/group.ts";
import { GroupTree, parentProblem } from "../../keys/group-tree.ts";
import type { GroupChange, NewGroup, StoredGroup } from "../../keys/stored-group.ts";
import type { Database } from "../database.ts";
import { batches, joinSql, sql, type Sql } from "../sql.ts";
import { checkName, isValidName } from "../stored-text.ts";
import { change, readRevision, type TableContext } from "./change.ts";
import {
  changedGroup,
  checkGroupChange,
  emptyGroup,
  groupDifferences,
  groupFrom,
  makeLimitsReader,
  type GroupColumns,
  type GroupRow,
} from "./group-row.ts";

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
    // Only names of groups that exist have an index: SQLite would read all rows to find others.
    return isValidName(idOrName) ? this.#first(sql`(id = ${idOrName} or (name = ${idOrName} and deleted_ms is null))`) : null;
  }

  async list(ids?: readonly string[]): Promise<readonly StoredGroup[]> {
    if (ids === undefined) return this.#readable(await rowsWhere(this.database, [isLive]));
    const rows: GroupRow[] = [];
    // In the order of ids, as all of them are.
    for (const someIds of batches(ids.filter(isValidName).toSorted(), (id) => sql`${id}`)) {
      rows.push(...(await rowsWhere(this.database, [isLive, sql`id in (${someIds})`])));
    }
    return this.#readable(rows);
  }

  async above(id: string): Promise<readonly StoredGroup[]> {
    return isValidName(id) ? this.#readable(await rowsAbove(this.database, id)) : [];
  }

  async within(ids: readonly string[]): Promise<readonly string[]> {
    const found = new Set<string>();
    for (const someIds of batches(ids.filter(isValidName), (id) => sql`(cast(${id} as text))`)) {
      // `union` leaves out what was found before, so that a circle ends. Joined at the end, SQLite would read all groups.
      const rows = await this.database.all<{ readonly id: string }>(sql`
        with recursive given (id) as (values ${someIds}), inside (id) as (
          select id from given
          union select below.id from inside join key_groups below on below.parent = inside.id where below.deleted_ms is null)
        select id from key_groups where deleted_ms is null and id in (select id from inside)`);
      for (const { id } of rows) found.add(id);
    }
    return [...found];
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

  async changedSince(since: number | null): Promise<{ readonly revision: number } & ChangedGroups> {
    // It is read first, so that changes made from now on are found again by the next call.
    const revision = await readRevision(this.database);
    if (revision === since) return { revision, isWhole: false, groups: [] };
    const isWhole = since === null || revision < since;
    // By itself, SQLite would read all rows in the order of their ids.
    const changed = sql`id in (select id from key_groups where revision > ${since})`;
    const rows = await rowsWhere(this.database, [isWhole ? isLive : changed]);
    const readable = new Map(this.#readable(rows.filter(({ deleted_ms }) => deleted_ms === null)).map((group) => [group.id, group]));
    return { revision, isWhole, groups: rows.map(({ id }) => ({ id, group: readable.get(id) ?? null })) };
  }

  #readable(rows: readonly GroupRow[]): readonly StoredGroup[] {
    const limitsOf = makeLimitsReader();
    return rows.flatMap((row) => {
      const group = groupFrom(row, limitsOf);
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
    const tree = new GroupTree([...inFile, ...this.#readable(await rowsAbove(transaction, parent))]);
    const chain = tree.chainOf(parent);
    switch (parentProblem(tree, id, parent) ?? (chain === null ? "broken" : await depthProblem(transaction, id, chain))) {
      case null:
        return;
      case "missing":
        throw new StorageError("invalid", "There is no group with the id of the parent.");
      case "circle":
        throw new StorageError("invalid", "A group cannot be below itself.");
      case "too_deep":
        throw new StorageError("invalid", `Groups have at most ${groupLevelsMax} levels.`);
      case "broken":
        // It is not named: who manages only a part of the tree may not know what is above it.
        throw new StorageError(
          "invalid",
          "A group above the parent is missing, or this version cannot read it. Put it back or repair it, or choose another parent.",
        );
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

/** A group and those above it. `union` leaves out what was found before, so that a circle ends. */
function rowsAbove(database: Database, id: string): Promise<readonly GroupRow[]> {
  return rowsWhere(database, [
    isLive,
    sql`id in (
      with recursive above (id) as (
        select cast(${id} as text)
        union select key_groups.parent from above join key_groups on key_groups.id = above.id where deleted_ms is null and parent is not null)
      select id from above)`,
  ]);
}

/** Whether what is below a group would be too deep under the groups of this chain. Only groups of the store are below one of the store. */
async function depthProblem(database: Database, id: string | null, { groups }: GroupChain): Promise<"too_deep" | null> {
  if (id === null) return null;
  let below = sql`(${id})`;
  for (let levels = groups.length + 1; levels < groupLevelsMax; levels += 1) {
    below = sql`(select id from key_groups where deleted_ms is null and parent in ${below})`;
  }
  const tooDeep = await database.all(sql`select 1 as found from key_groups where deleted_ms is null and parent in ${below} limit 1`);
  return tooDeep.length > 0 ? "too_deep" : null;
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
