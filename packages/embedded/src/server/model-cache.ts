import type { EmbeddedModel } from "../catalog.ts";
import type { RequestError } from "./request-error.ts";
import { verifiedWeights } from "./verified-weights.ts";

/**
 * Keeps one model in memory: it is loaded on first use and replaced when another one is requested, because few machines have room for
 * several. A failed load is tried again on the next use, because the file may have been repaired. Must only be called by the
 * running job, so that no model is unloaded while it is in use.
 */
export function modelCache<Loaded extends object>(
  load: (model: EmbeddedModel, directory: string) => Promise<Loaded>,
  unload: (loaded: Loaded) => Promise<void>,
): (model: EmbeddedModel) => Promise<Loaded | RequestError> {
  const cache: { current: { readonly id: string; readonly loaded: Loaded } | null } = { current: null };
  return async (model) => {
    const before = cache.current;
    if (before?.id === model.id) return before.loaded;
    // The new model is verified first, so that a damaged one does not unload one that works.
    const directory = await verifiedWeights(model);
    if (typeof directory !== "string") return directory;
    cache.current = null;
    if (before !== null) await unload(before.loaded);
    const loaded = await load(model, directory);
    cache.current = { id: model.id, loaded };
    return loaded;
  };
}
