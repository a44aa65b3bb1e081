import { StorageError, type Storage } from "../gateway/storage.ts";
import type { Key } from "../keys/key.ts";
import type { StoredKey } from "../keys/stored-key.ts";
import type { ManageContext } from "./context.ts";

/** A key, and whether it is defined in the configuration or kept in the store. */
export type KnownKey = { readonly source: "store"; readonly key: StoredKey } | { readonly source: "file"; readonly key: Key };

/** Looks in the configuration first, as for calls of clients. */
export async function keyById({ fileKeys, storage }: ManageContext, id: string): Promise<KnownKey | null> {
  const inFile = fileKeys().find((key) => key.id === id);
  if (inFile !== undefined) return { source: "file", key: inFile };
  const key = await storage.keys.get(id);
  return key === null ? null : { source: "store", key };
}

export async function keyByIdOrName(context: ManageContext, idOrName: string): Promise<KnownKey | null> {
  const byId = await keyById(context, idOrName);
  if (byId !== null) return byId;
  const inFile = context.fileKeys().find((key) => key.name === idOrName);
  if (inFile !== undefined) return { source: "file", key: inFile };
  const key = await context.storage.keys.find(idOrName);
  return key === null ? null : { source: "store", key };
}

export function keyState(known: KnownKey, nowMs: number): "active" | "expired" | "revoked" {
  if (known.source === "store" && known.key.revokedMs !== null) return "revoked";
  const { expiresMs } = known.key;
  return expiresMs !== null && expiresMs <= nowMs ? "expired" : "active";
}

/** The names of keys by id. A key that no longer exists has none. At most `max` are looked up in the store. */
export async function keyNames(context: ManageContext, ids: Iterable<string>, max: number): Promise<ReadonlyMap<string, string>> {
  const names = new Map(context.fileKeys().map(({ id, name }) => [id, name]));
  const unknown = [...new Set(ids)].filter((id) => !names.has(id)).slice(0, max);
  for (let at = 0; at < unknown.length; at += concurrentLookups) {
    const keys = await Promise.all(unknown.slice(at, at + concurrentLookups).map((id) => readableKey(context, id)));
    for (const key of keys) if (key !== null) names.set(key.id, key.name);
  }
  return names;
}

const concurrentLookups = 16;

/** A damaged row must not hide the usage of all other keys, so its key has no name. */
function readableKey({ reports }: ManageContext, id: string): Promise<StoredKey | null> {
  return reports.keys.get(id).catch((error: unknown) => {
    if (error instanceof StorageError && error.kind === "damaged") return null;
    throw error;
  });
}

export interface KeyPageQuery {
  /** Part of a name, an owner, a note or an id; case is ignored. */
  readonly search: string | null;
  /** Includes revoked keys. */
  readonly revoked: boolean;
  /** Only keys of these groups, by id; null: all keys. */
  readonly groups?: readonly string[] | null;
  /** The `next` of the previous page. */
  readonly after: string | null;
  readonly limit: number;
}

export interface KeyPage {
  readonly keys: readonly KnownKey[];
  readonly next: string | null;
}

/** Lists keys of the configuration first, then those of the store, each by id. The cursor says which of the two it points into. */
export async function keyPage(
  { fileKeys, reports }: Pick<ManageContext, "fileKeys" | "reports">,
  { search, revoked, groups = null, after, limit }: KeyPageQuery,
): Promise<KeyPage> {
  const inStore = after?.startsWith(storeCursor) === true;
  const fileAfter = after?.startsWith(fileCursor) === true ? after.slice(fileCursor.length) : "";
  const inFile = inStore
    ? []
    : fileKeys()
        .filter(({ id, name }) => id > fileAfter && (search === null || mentions(`${id}\n${name}`, search)))
        .filter(({ group }) => groups === null || (group !== null && groups.includes(group)))
        .toSorted((one, other) => (one.id < other.id ? -1 : 1))
        .slice(0, limit)
        .map((key): KnownKey => ({ source: "file", key }));
  const left = limit - inFile.length;
  const stored =
    left === 0
      ? []
      : await reports.keys.list({
          search,
          revoked,
          groups,
          after: inStore ? after.slice(storeCursor.length) : null,
          limit: left,
        });
  const keys = [...inFile, ...stored.map((key): KnownKey => ({ source: "store", key }))];
  const last = keys.at(-1);
  if (last === undefined || keys.length < limit) return { keys, next: null };
  return { keys, next: `${last.source === "file" ? fileCursor : storeCursor}${last.key.id}` };
}

/** Every key of the store that is not revoked, page by page, the first `max` at most: there may be a million. */
export async function* storedKeys({ keys }: Pick<Storage, "keys">, max = Number.POSITIVE_INFINITY): AsyncGenerator<StoredKey> {
  let after: string | null = null;
  for (let left = max; left > 0;) {
    const page: readonly StoredKey[] = await keys.list({ search: null, revoked: false, after, limit: Math.min(pageKeys, left) });
    yield* page;
    left -= page.length;
    after = page.at(-1)?.id ?? null;
    if (after === null) return;
  }
}

/** The store gives no longer pages. */
const pageKeys = 200;

const fileCursor = "file.";
const storeCursor = "store.";

function mentions(text: string, search: string): boolean {
  return text.toLowerCase().includes(search.toLowerCase());
}
