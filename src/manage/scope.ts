import {
  StorageError,
  type AccountStorage,
  type AuditEntry,
  type AuditStorage,
  type BlockedSubjectStorage,
  type BudgetStorage,
  type ChannelStorage,
  type GroupStorage,
  type KeyStorage,
  type PriceStorage,
  type Storage,
} from "../gateway/storage.ts";
import { isGroupId, type Group } from "../keys/group.ts";
import type { Key } from "../keys/key.ts";
import type { StoredGroup } from "../keys/stored-group.ts";
import type { StoredKey } from "../keys/stored-key.ts";
import { isJsonObject } from "../operations/json.ts";
import type { Receipt } from "../usage/receipt.ts";
import type { UsageQuery, UsageRow } from "../usage/usage-row.ts";
import type { ManageContext } from "./context.ts";
import { idsWithin, treeAbove } from "./group-search.ts";

/** What a group admin may see and change: keys of the group and of those below it, groups below it, and what they used. */
export interface GroupScope {
  readonly groupId: string;
  /** The group itself, and all groups below it. */
  readonly ids: ReadonlySet<string>;
}

/** A group that does not exist any more has no scope. */
export async function scopeOf(context: ManageContext, groupId: string): Promise<GroupScope> {
  return { groupId, ids: new Set(await idsWithin(context, groupId)) };
}

/**
 * The same actions within a scope. It is the storage that is narrowed and not each action, so that whatever is built on it cannot see
 * or change anything else. What is outside looks as if it did not exist.
 */
export function scopedContext<Context extends ManageContext>(context: Context, scope: GroupScope): Context {
  const { groupId, ids } = scope;
  const narrowed = (storage: Storage): Storage => scopedStorage(storage, scope, context);
  return {
    ...context,
    storage: narrowed(context.storage),
    reports: narrowed(context.reports),
    fileKeys: () => context.fileKeys().filter((key) => isKeyOf(key, ids)),
    fileGroups: () => context.fileGroups().flatMap((group) => (ids.has(group.id) ? [shownGroup(group, ids)] : [])),
    scope: { groupId, treeAbove: (id) => treeAbove(context, id) },
  };
}

/** The group itself looks as if there were none above it. */
function shownGroup<Shown extends Group>(group: Shown, ids: ReadonlySet<string>): Shown {
  return group.parent === null || ids.has(group.parent) ? group : { ...group, parent: null };
}

/** Changes tell where a key or a group was before, and what a group is below. */
function shownEntry(entry: AuditEntry, ids: ReadonlySet<string>): AuditEntry {
  const shown = (value: unknown): unknown => {
    if (typeof value === "string") return isGroupId(value) && !ids.has(value) ? null : value;
    if (Array.isArray(value)) return value.map(shown);
    return isJsonObject(value) ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shown(member)])) : value;
  };
  return { ...entry, detail: Object.fromEntries(Object.entries(entry.detail).map(([name, member]) => [name, shown(member)])) };
}

function isKeyOf({ group }: Key, ids: ReadonlySet<string>): boolean {
  return group !== null && ids.has(group);
}

/** What the whole configuration has, in and outside of the scope. */
type FileContents = Pick<ManageContext, "fileGroups" | "fileKeys">;

function scopedStorage(storage: Storage, scope: GroupScope, file: FileContents): Storage {
  const { groupId, ids } = scope;
  const { fileGroups } = file;
  const fileKeys = (): readonly Key[] => file.fileKeys().filter((key) => isKeyOf(key, ids));
  const visible = (key: StoredKey | null): StoredKey | null => (key !== null && isKeyOf(key, ids) ? key : null);
  const visibleGroup = (group: StoredGroup | null): StoredGroup | null =>
    group !== null && ids.has(group.id) ? shownGroup(group, ids) : null;
  // What is changed is looked up again in the transaction: it may have been moved elsewhere meanwhile. One look upwards tells. On SQLite, where
  // a change of a key is one message to the thread of the store, it takes about ten in here, between which all other writers wait.
  const isInside = async (inner: Storage, id: string): Promise<boolean> => {
    const tree = await treeAbove({ fileGroups, reports: inner }, id);
    return tree.get(id) !== null && tree.isWithin(id, groupId);
  };
  const changeKey = <T>(id: string, work: (inner: Storage) => Promise<T>): Promise<T> =>
    storage.together(async (inner) => {
      const group = (await inner.keys.get(id))?.group ?? null;
      if (group === null || !(await isInside(inner, group))) throw new StorageError("missing", "There is no such key.");
      return work(inner);
    });
  const knowsKey = async (id: string): Promise<boolean> =>
    fileKeys().some((key) => key.id === id) || visible(await storage.keys.get(id)) !== null;
  const place = async (inner: Storage, group: string | null | undefined): Promise<void> => {
    if (group == null || !(await isInside(inner, group))) throw new StorageError("invalid", "Choose a group that you manage.");
  };
  // Names are those of the whole gateway. Where another one has it must not be told.
  const freeName = (what: "key" | "group", name: string | undefined): void => {
    const taken: readonly Pick<Key, "id" | "name">[] = what === "key" ? file.fileKeys() : fileGroups();
    if (!taken.some((one) => one.name === name || one.id === name)) return;
    throw new StorageError("conflict", `A ${what} with this name or id already exists: choose another.`);
  };
  const groupBelow = async (inner: Storage, id: string): Promise<void> => {
    if (id === groupId) throw new StorageError("conflict", "Your own group is managed by those above it.");
    if (!(await isInside(inner, id))) throw new StorageError("missing", "There is no such group.");
  };
  const sums = async <Row extends Pick<UsageRow, "group">>(
    query: UsageQuery,
    read: (narrowed: UsageQuery) => Promise<readonly Row[]>,
  ): Promise<readonly Row[]> => {
    if (query.keyId !== null) return (await knowsKey(query.keyId)) ? read(query) : [];
    const asked = query.groupId ?? null;
    if (asked !== null && !ids.has(asked)) return [];
    if (query.by.includes("key") && !query.by.includes("group")) {
      const keys = fileKeys().map(({ id }) => id);
      const { groups = [...ids], keys: some = keys } = query.keysOf ?? {};
      const keysOf = { groups: groups.filter((id) => ids.has(id)), keys: some.filter((id) => keys.includes(id)) };
      return read({ ...query, keysOf });
    }
    if (!query.by.includes("group")) return read({ ...query, groupId: asked ?? groupId });
    return (await read({ ...query, groups: [...ids] })).filter(({ group }) => ids.has(group.group ?? ""));
  };
  const isOwn = ({ owners }: Receipt): boolean => owners.includes(groupId);
  // The nearest group goes first. Those above the scope are nobody's business, and in the file their ids are their names.
  const shown = (receipt: Receipt): Receipt => {
    const last = receipt.owners.findLastIndex((id) => ids.has(id));
    return { ...receipt, owners: receipt.owners.filter((id, at) => at <= last || !isGroupId(id)) };
  };
  const ownNamesakes = async (receipt: Receipt): Promise<readonly Receipt[]> => {
    const others = await Promise.all((await storage.receipts.namesakes(receipt)).map((id) => storage.receipts.find(id)));
    return others.filter((other) => other !== null).filter(isOwn);
  };
  return {
    keys: only<KeyStorage>({
      create: (id, key, token, by) =>
        storage.together(async (inner) => {
          await place(inner, key.group);
          // The id of an imported token is in the token.
          for (const name of [id, key.name]) freeName("key", name);
          return inner.keys.create(id, key, token, by);
        }),
      get: async (id) => visible(await storage.keys.get(id)),
      find: async (idOrName) => visible(await storage.keys.find(idOrName)),
      list: (query) => storage.keys.list({ ...query, groups: query.groups?.filter((id) => ids.has(id)) ?? [...ids] }),
      change: (id, change, by) =>
        changeKey(id, async (inner) => {
          if (change.group !== undefined) await place(inner, change.group);
          freeName("key", change.name);
          return inner.keys.change(id, change, by);
        }),
      rotate: (id, token, overlapMs, by) => changeKey(id, ({ keys }) => keys.rotate(id, token, overlapMs, by)),
      revoke: (id, by) => changeKey(id, ({ keys }) => keys.revoke(id, by)),
    }),
    groups: only<GroupStorage>({
      create: (id, group, _inFile, by) =>
        storage.together(async (inner) => {
          await place(inner, group.parent);
          freeName("group", group.name);
          return inner.groups.create(id, group, fileGroups(), by);
        }),
      get: async (id) => visibleGroup(await storage.groups.get(id)),
      find: async (idOrName) => visibleGroup(await storage.groups.find(idOrName)),
      list: async (some) => {
        const groups = await storage.groups.list(some?.filter((id) => ids.has(id)) ?? [...ids]);
        return groups.map((group) => shownGroup(group, ids));
      },
      above: async (id) => (await storage.groups.above(id)).flatMap((group) => visibleGroup(group) ?? []),
      within: async (some) => (await storage.groups.within(some)).filter((id) => ids.has(id)),
      names: (some) => storage.groups.names(some.filter((id) => ids.has(id))),
      change: (id, change, _inFile, by) =>
        storage.together(async (inner) => {
          await groupBelow(inner, id);
          if (change.parent !== undefined) await place(inner, change.parent);
          freeName("group", change.name);
          return inner.groups.change(id, change, fileGroups(), by);
        }),
      remove: (id, by) =>
        storage.together(async (inner) => {
          await groupBelow(inner, id);
          return inner.groups.remove(id, by);
        }),
      // Where a deleted group was is known when it is back; if that is elsewhere, the transaction is rolled back.
      restore: (id, _inFile, by) =>
        storage.together(async (inner) => {
          const group = await inner.groups.restore(id, fileGroups(), by);
          if (id === groupId || !(await isInside(inner, id))) throw new StorageError("missing", "There is no such group.");
          return group;
        }),
    }),
    receipts: {
      // Clients of other groups may have chosen the same request id; the id of a receipt is of one call.
      find: async (id) => {
        const receipt = await storage.receipts.find(id);
        if (receipt === null) return null;
        const own = isOwn(receipt) ? receipt : receipt.id === id ? undefined : (await ownNamesakes(receipt))[0];
        return own === undefined ? null : shown(own);
      },
      namesakes: async (receipt) => (await ownNamesakes(receipt)).map(({ id }) => id),
      list: async (query) => {
        const asked = query.groupId ?? groupId;
        return ids.has(asked) ? (await storage.receipts.list({ ...query, groupId: asked })).map(shown) : [];
      },
      horizon: (query, count) => storage.receipts.horizon(query, count),
      usage: (query) => sums(query, (narrowed) => storage.receipts.usage(narrowed)),
      outcomes: (query) => sums(query, (narrowed) => storage.receipts.outcomes(narrowed)),
      outcomesFrom: () => storage.receipts.outcomesFrom(),
      modelTimes: async (query) => {
        const asked = query.groupId ?? groupId;
        return ids.has(asked) ? storage.receipts.modelTimes({ ...query, groupId: asked }) : { first: [], took: [] };
      },
      firstContents: refuse,
      // Invoices are about the whole gateway.
      upstreamUse: refuse,
      payments: async (ownerId, sinceMs) =>
        ids.has(ownerId) || (await knowsKey(ownerId)) ? storage.receipts.payments(ownerId, sinceMs) : [],
    },
    audit: only<AuditStorage>({
      list: async (query) => (await storage.audit.list({ ...query, groups: [...ids] })).map((entry) => shownEntry(entry, ids)),
      get: async (id) => {
        const entry = await storage.audit.get(id, [...ids]);
        return entry === null ? null : shownEntry(entry, ids);
      },
      // What they do, they can see in their own log.
      note: (action, subject, detail, by) => storage.audit.note(action, subject, detail, by, groupId),
    }),
    channels: only<ChannelStorage>({}),
    prices: only<PriceStorage>({}),
    budgets: only<BudgetStorage>({}),
    accounts: only<AccountStorage>({}),
    blockedSubjects: only<BlockedSubjectStorage>({}),
    revision: () => storage.revision(),
    together: (work) => storage.together((inner) => work(scopedStorage(inner, scope, file))),
    close: refuse,
  };
}

/** All other methods are not for group admins, and no route of theirs uses them. */
function only<Part extends object>(allowed: Partial<Part>): Part {
  const get = (target: Partial<Part>, name: string | symbol): unknown =>
    Reflect.get(target, name) ?? (name === "then" ? undefined : refuse);
  return new Proxy(allowed, { get }) as Part;
}

function refuse(): Promise<never> {
  return Promise.reject(new StorageError("invalid", "This is not for administrators of a group."));
}
