import type { Address } from "../../channels/channel.ts";
import type { ModelsCodec } from "../dialect.ts";
import { filledTextOf, objectOf, objectsIn } from "../untrusted.ts";
import type { JsonObject } from "../../operations/json.ts";

export const geminiModels: ModelsCodec = { path: modelsPath, read: readModels, next: nextModels };

/** The largest page: the usual one has 50 models. */
function modelsPath({ modelsPath: path }: Address): string | null {
  return path === null ? null : `${path}?pageSize=1000`;
}

/** Only the models that generate content. A list that says nothing about that is believed. */
function readModels(body: string): readonly string[] | null {
  const page = pageOf(body);
  if (page === null || (page["models"] !== undefined && !Array.isArray(page["models"]))) return null;
  // An empty list is left out.
  if (page["models"] === undefined && Object.keys(page).some((key) => key !== "nextPageToken")) return null;
  return objectsIn(page["models"]).flatMap((model) => {
    const name = filledTextOf(model["name"]);
    const methods: unknown = model["supportedGenerationMethods"];
    const generates = !Array.isArray(methods) || (methods as readonly unknown[]).includes("generateContent");
    return name !== null && generates ? [name] : [];
  });
}

function nextModels(body: string): string | null {
  const token = filledTextOf(pageOf(body)?.["nextPageToken"]);
  return token === null || token.length > tokenLengthMax ? null : `&pageToken=${encodeURIComponent(token)}`;
}

const tokenLengthMax = 4096;

function pageOf(body: string): JsonObject | null {
  try {
    return objectOf(JSON.parse(body));
  } catch {
    return null;
  }
}
