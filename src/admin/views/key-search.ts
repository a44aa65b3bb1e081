import { StorageTrouble } from "../../gateway/storage.ts";
import type { StoredKey } from "../../keys/stored-key.ts";
import type { KnownKey } from "./key-view.ts";
import type { Services } from "../services.ts";

/** The key with an id. The file goes first, as it does when a client calls. */
export async function keyById(services: Services, id: string): Promise<KnownKey | null> {
  const own = services.fileKeys().find((key) => key.id === id);
  if (own !== undefined) return { source: "file", key: own };
  const key = await services.storage.keys.get(id);
  return key === null ? null : { source: "store", key };
}

/** The one that somebody means by an id or a name. */
export async function keyMeant(services: Services, idOrName: string): Promise<KnownKey | null> {
  const byId = await keyById(services, idOrName);
  if (byId !== null) return byId;
  const own = services.fileKeys().find((key) => key.name === idOrName);
  if (own !== undefined) return { source: "file", key: own };
  const key = await services.storage.keys.find(idOrName);
  return key === null ? null : { source: "store", key };
}

/** What people call the keys with these ids; who is gone has no name. More than so many are not looked up. */
export async function keyNames(services: Services, ids: Iterable<string>): Promise<ReadonlyMap<string, string>> {
  const names = new Map(services.fileKeys().map(({ id, name }) => [id, name]));
  const unknown = [...new Set(ids)].filter((id) => !names.has(id)).slice(0, namesMax);
  for (let at = 0; at < unknown.length; at += togetherMax) {
    const keys = await Promise.all(unknown.slice(at, at + togetherMax).map((id) => named(services, id)));
    for (const key of keys) if (key !== null) names.set(key.id, key.name);
  }
  return names;
}

/** A key that cannot be read has no name, and must not hide what all the others used. */
function named({ reports }: Services, id: string): Promise<StoredKey | null> {
  return reports.keys.get(id).catch((error: unknown) => {
    if (error instanceof StorageTrouble && error.kind === "damaged") return null;
    throw error;
  });
}

const namesMax = 2000;
const togetherMax = 16;

export interface KeyPage {
  readonly search: string | null;
  readonly revoked: boolean;
  readonly after: string | null;
  readonly limit: number;
}

/** Keys of the file first, then those of the store, each by id. A place in the list says which of the two it is in. */
export async function keyPage(
  services: Services,
  { search, revoked, after, limit }: KeyPage,
): Promise<{ readonly keys: readonly KnownKey[]; readonly next: string | null }> {
  const inStore = after?.startsWith(storeMark) === true;
  const fileAfter = after?.startsWith(fileMark) === true ? after.slice(fileMark.length) : "";
  const own = inStore
    ? []
    : services
        .fileKeys()
        .filter(({ id, name }) => id > fileAfter && (search === null || mentions(`${id}\n${name}`, search)))
        .toSorted((one, other) => (one.id < other.id ? -1 : 1))
        .slice(0, limit)
        .map((key): KnownKey => ({ source: "file", key }));
  const left = limit - own.length;
  const stored =
    left === 0
      ? []
      : await services.reports.keys.list({
          search,
          revoked,
          after: inStore ? after.slice(storeMark.length) : null,
          limit: left,
        });
  const keys = [...own, ...stored.map((key): KnownKey => ({ source: "store", key }))];
  const last = keys.at(-1);
  if (last === undefined || keys.length < limit) return { keys, next: null };
  return { keys, next: `${last.source === "file" ? fileMark : storeMark}${last.key.id}` };
}

const fileMark = "file.";
const storeMark = "store.";

function mentions(text: string, search: string): boolean {
  return text.toLowerCase().includes(search.toLowerCase());
}
