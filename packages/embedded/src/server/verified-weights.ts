import { join } from "node:path";
import { fileHash } from "../addons/file-hash.ts";
import { packageDirectory, type EmbeddedModel } from "../catalog.ts";
import { refusal, type Refusal } from "./refusal.ts";
import { isAdded } from "./served-models.ts";

/** The folder that the paths of a model's files start from, once every one of them was found to be the one we know. */
export async function verifiedWeights(model: EmbeddedModel): Promise<string | Refusal> {
  const directory = isAdded(model) ? model.directory : packageDirectory(model.package);
  if (directory === null) return unusable(model, `the package ${model.package} is not installed`);
  for (const { path, sha256 } of model.files) {
    const found = await fileHash(join(directory, path), "sha256", "hex");
    if (found === null) return unusable(model, `${path} of ${model.package} cannot be read`);
    if (found !== sha256) return unusable(model, `${path} of ${model.package} is not the file it should be (its SHA-256 is ${found})`);
  }
  return directory;
}

function unusable(model: EmbeddedModel, why: string): Refusal {
  const remedy = isAdded(model) ? ` Run sluice models remove ${model.upstream}, then sluice models add ${model.upstream}.` : "";
  const facts = { type: "service_unavailable_error", code: "engine_unavailable" };
  return refusal(503, `${model.id} cannot be loaded: ${why}.${remedy}`, facts);
}
