import type { EmbeddedModel } from "../catalog.ts";
import type { Refusal } from "./refusal.ts";
import { verifiedWeights } from "./verified-weights.ts";

/**
 * The one model of an engine that is in memory: loaded at its first use and kept until another is asked for, since few
 * machines have room for several. What failed to load is tried again at the next use: the file may have been mended
 * meanwhile. To be called by the job whose turn it is, so that nobody is at work with a model that is closed.
 */
export function oneLoaded<Loaded extends object>(
  load: (model: EmbeddedModel, directory: string) => Promise<Loaded>,
  unload: (loaded: Loaded) => Promise<void>,
): (model: EmbeddedModel) => Promise<Loaded | Refusal> {
  const place: { held: { readonly id: string; readonly loaded: Loaded } | null } = { held: null };
  return async (model) => {
    const before = place.held;
    if (before?.id === model.id) return before.loaded;
    // First, so that a model that is damaged does not drive out one that works.
    const directory = await verifiedWeights(model);
    if (typeof directory !== "string") return directory;
    place.held = null;
    if (before !== null) await unload(before.loaded);
    const loaded = await load(model, directory);
    place.held = { id: model.id, loaded };
    return loaded;
  };
}
