import { join } from "node:path";
import { fileHash } from "../addons/files.ts";
import { weightsDirectory, type EmbeddedModel } from "../catalog.ts";
import { requestError, type RequestError } from "./request-error.ts";
import { isAdded } from "./served-models.ts";

/** The folder of a model's files, after the hash of each of them was verified. */
export async function verifiedWeights(model: EmbeddedModel): Promise<string | RequestError> {
  const directory = isAdded(model) ? model.directory : weightsDirectory(model);
  if (directory === null) return unusable(model, `the package ${model.package} is not installed`);
  const owner = model.package ?? "this installation";
  for (const { path, sha256 } of model.files) {
    const found = await fileHash(join(directory, path), "sha256", "hex");
    if (found === null) return unusable(model, `${path} of ${owner} cannot be read`);
    if (found !== sha256) return unusable(model, `${path} of ${owner} is not the file it should be (its SHA-256 is ${found})`);
  }
  return directory;
}

function unusable(model: EmbeddedModel, why: string): RequestError {
  const fix = isAdded(model) ? ` Run sluice models remove ${model.upstream}, and add it again.` : "";
  const facts = { type: "service_unavailable_error", code: "engine_unavailable" };
  return requestError(503, `${model.id} cannot be loaded: ${why}.${fix}`, facts);
}
