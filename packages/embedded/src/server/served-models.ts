import { addedModels, type AddedModel } from "../addons/installed.ts";
import { catalog, type EmbeddedModel } from "../catalog.ts";

/** The models that an engine serves just now: between two requests one may be added or removed. Cheap: no weights are read. */
export type ServedModels = () => readonly EmbeddedModel[];

/** Those of one operation that are built in, and those that were added to the data directory, where there is one. */
export function servedModels(operation: EmbeddedModel["operation"], dataDir: string | null): ServedModels {
  const builtIn = catalog.filter((model) => model.operation === operation);
  if (dataDir === null) return () => builtIn;
  return () => [...builtIn, ...addedModels(dataDir).filter((model) => model.operation === operation)];
}

export function isAdded(model: EmbeddedModel): model is AddedModel {
  return "directory" in model;
}
