import type { JsonObject } from "../../operations/json.ts";

/** The prompt of a request. */
export function promptFields(fields: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !aboutTheAnswer.has(name)));
}

const aboutTheAnswer: ReadonlySet<string> = new Set([
  ...["max_tokens", "stream", "stop_sequences", "temperature", "top_p", "top_k", "metadata", "service_tier", "container", "inference_geo"],
]);
