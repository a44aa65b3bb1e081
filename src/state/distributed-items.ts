import type { FoundItems, ItemMemory, KeptItem } from "../operations/conversation/kept-items.ts";
import type { TextSeal } from "../operations/conversation/sealed-parts.ts";
import type { StoreGuard } from "./store-guard.ts";

/** Texts that several processes share, for a time. */
export interface DistributedTexts {
  put(texts: readonly (readonly [name: string, text: string])[], forMs: number): Promise<void>;
  /** The texts of these names, in their order; null where there is none. They live for that long again. */
  get(names: readonly string[], forMs: number): Promise<readonly (string | null)[]>;
}

export interface DistributedItemsOptions {
  readonly local: ItemMemory;
  readonly texts: DistributedTexts;
  readonly guard: Pick<StoreGuard, "run">;
  readonly seal: TextSeal;
}

/**
 * Items that replicas share, beside those of this process. They are sealed for their key, because whoever can read the shared store must
 * not read conversations. Without the store, each process knows its own.
 */
export class DistributedItems implements ItemMemory {
  constructor(private readonly options: DistributedItemsOptions) {}

  async keep(keyId: string, items: readonly KeptItem[], forMs: number): Promise<void> {
    const { local, texts, guard, seal } = this.options;
    void local.keep(keyId, items, forMs);
    const sealed = items.flatMap(({ id, json }) => {
      const text = seal.seal(json, contextOf(keyId, id));
      return text === null ? [] : [[nameOf(keyId, id), text] as const];
    });
    await guard.run(() => texts.put(sealed, forMs)).catch(() => {});
  }

  async find(keyId: string, ids: readonly string[], forMs: number): Promise<FoundItems> {
    const { local, texts, guard } = this.options;
    const found = new Map(await local.find(keyId, ids, forMs));
    const missing = ids.filter((id) => !found.has(id));
    if (missing.length === 0) return found;
    const names = missing.map((id) => nameOf(keyId, id));
    const shared = await guard.run(() => texts.get(names, forMs)).catch(() => []);
    for (const [at, id] of missing.entries()) {
      const json = this.opened(keyId, id, shared[at] ?? null);
      if (json !== null) found.set(id, json);
    }
    return found;
  }

  private opened(keyId: string, id: string, sealed: string | null): string | null {
    return sealed === null ? null : this.options.seal.open(sealed, contextOf(keyId, id));
  }
}

function contextOf(keyId: string, id: string): readonly string[] {
  return ["item", keyId, id];
}

/** The braces put all items of a key on one node of a cluster. */
function nameOf(keyId: string, id: string): string {
  return `item:{${keyId}}:${id}`;
}
