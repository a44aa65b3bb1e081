import { addedModels, type AddedModel } from "../addons/installed.ts";
import { catalog, type EmbeddedModel } from "../catalog.ts";
import { requestError, type RequestError } from "./request-error.ts";

/** The models that an engine currently serves. Models may be added or removed at any time. Cheap: no weights are read. */
export type ServedModels = () => readonly EmbeddedModel[];

/** The built-in models of one operation, and those that were added to the data directory. */
export function servedModels(operation: EmbeddedModel["operation"], dataDir: string | null): ServedModels {
  const builtIn = catalog.filter((model) => model.operation === operation);
  if (dataDir === null) return () => builtIn;
  return () => [...builtIn, ...addedModels(dataDir).filter((model) => model.operation === operation)];
}

export function isAdded(model: EmbeddedModel): model is AddedModel {
  return "directory" in model;
}

/** Finds a model by its id or by its upstream name. */
export function findModel(models: readonly EmbeddedModel[], name: unknown): EmbeddedModel | RequestError {
  if (name == null) return requestError(400, "`model` is missing.", { param: "model", code: "missing_required_parameter" });
  if (typeof name !== "string") return requestError(400, "`model` must be a string.", { param: "model", code: "invalid_type" });
  const known = models.find(({ id, upstream }) => id === name || upstream === name);
  return known ?? requestError(404, `This engine has no model \`${name.slice(0, 100)}\`.`, { param: "model", code: "model_not_found" });
}
