import type { EmbeddedModel } from "../catalog.ts";
import { refusal, type Refusal } from "./refusal.ts";

/** By either of its names. */
export function chosenModel(models: readonly EmbeddedModel[], name: unknown): EmbeddedModel | Refusal {
  if (name == null) return refusal(400, "`model` is missing.", { param: "model", code: "missing_required_parameter" });
  if (typeof name !== "string") return refusal(400, "`model` must be a string.", { param: "model", code: "invalid_type" });
  const known = models.find(({ id, upstream }) => id === name || upstream === name);
  return known ?? refusal(404, `There is no model \`${name.slice(0, 100)}\` in this engine.`, { param: "model", code: "model_not_found" });
}
