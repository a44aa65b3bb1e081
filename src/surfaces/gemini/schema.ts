import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/** The API's own schemas are a subset of OpenAPI 3.0 with types in capitals. As JSON schemas they mean the same. */
export function jsonSchema(schema: JsonObject): JsonObject {
  const plain: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key === "nullable" || value === null || left.has(key)) continue;
    plain[key] = schemaValue(key, value);
  }
  if (schema["nullable"] !== true) return plain;
  if (typeof plain["type"] === "string") plain["type"] = [plain["type"], "null"];
  if (Array.isArray(plain["enum"])) plain["enum"] = [...(plain["enum"] as readonly unknown[]), null];
  return plain;
}

/** Only this API knows it. */
const left: ReadonlySet<string> = new Set(["propertyOrdering", "property_ordering"]);

/** Numbers of 64 bits may be written as strings there. */
const counts: ReadonlySet<string> = new Set(["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]);

function schemaValue(key: string, value: unknown): unknown {
  if (key === "type" && typeof value === "string") return value.toLowerCase();
  if (counts.has(key) && typeof value === "string" && /^\d{1,9}$/.test(value)) return Number(value);
  if (key === "items" && isJsonObject(value)) return jsonSchema(value);
  if (key === "anyOf" && Array.isArray(value)) return value.map((one: unknown) => (isJsonObject(one) ? jsonSchema(one) : one));
  if (key !== "properties" || !isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, isJsonObject(one) ? jsonSchema(one) : one]));
}
