import { StorageTrouble } from "../../gateway/storage.ts";
import type { Key } from "../../keys/key.ts";
import type { StoredKey } from "../../keys/stored-key.ts";
import { shown } from "../shown-text.ts";
import type { CliStore, StoreWorld } from "../store-world.ts";
import { CommandTrouble } from "../trouble.ts";

/** A key of either kind, and where it is from. */
export type KnownKey = { readonly source: "store"; readonly key: StoredKey } | { readonly source: "file"; readonly key: Key };

/** The one that somebody means by an id or a name. The file goes first, as it does when a client calls. */
export async function keyMeant(idOrName: string, { storage }: CliStore, { fileKeys }: StoreWorld): Promise<KnownKey | null> {
  const own = fileKeys.find(({ id }) => id === idOrName) ?? fileKeys.find(({ name }) => name === idOrName);
  if (own !== undefined) return { source: "file", key: own };
  const key = await storage.keys.find(idOrName);
  return key === null ? null : { source: "store", key };
}

export async function knownKey(idOrName: string, store: CliStore, world: StoreWorld): Promise<KnownKey> {
  const known = await keyMeant(idOrName, store, world);
  if (known !== null) return known;
  throw new CommandTrouble(`There is no key ${JSON.stringify(shown(idOrName))}. See sluice keys list --revoked.`);
}

/** A key that can be changed here. */
export async function storedKey(idOrName: string, store: CliStore, world: StoreWorld): Promise<StoredKey> {
  const known = await knownKey(idOrName, store, world);
  if (known.source === "store") return known.key;
  const place = world.configFile === null ? "the environment (SLUICE_KEY)" : world.configFile;
  throw new CommandTrouble(`Key ${known.key.name} stands in ${place}: change it there. A running gateway reads its file again by itself.`);
}

/** Refuses a name that would not tell two keys apart. */
export function refuseFileName(name: string, { fileKeys }: StoreWorld): void {
  if (name.startsWith("file:"))
    throw new CommandTrouble("A name must not begin with file:, which stands for keys of the configuration file.");
  if (fileKeys.some((key) => key.name === name || key.id === name)) {
    throw new CommandTrouble("A key of the configuration has that name: choose another.");
  }
}

/** What people call keys; who is gone has no name. Of very many, not all are looked up. */
export async function keyNames(
  ids: Iterable<string>,
  { storage }: CliStore,
  { fileKeys }: StoreWorld,
): Promise<ReadonlyMap<string, string>> {
  const names = new Map(fileKeys.map(({ id, name }) => [id, name]));
  const unknown = [...new Set(ids)].filter((id) => !names.has(id)).slice(0, namesMax);
  for (const id of unknown) {
    const key = await storage.keys.get(id).catch((error: unknown) => {
      // A key that cannot be read must not hide what all the others used.
      if (error instanceof StorageTrouble && error.kind === "damaged") return null;
      throw error;
    });
    if (key !== null) names.set(id, key.name);
  }
  return names;
}

const namesMax = 5_000;
