import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { camelCase } from "./names.ts";

/**
 * The API's own schemas are a subset of OpenAPI 3.0 with types in capitals, and with keywords in either spelling. As JSON schemas they
 * mean the same.
 */
export function jsonSchema(schema: JsonObject): JsonObject {
  const plain: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    const keyword = keywordOf(key);
    const isRepeated = keyword !== key && schema[keyword] != null;
    if (keyword === "nullable" || keyword === "propertyOrdering" || value === null || isRepeated) continue;
    plain[keyword] = schemaValue(keyword, value);
  }
  return schema["nullable"] === true ? withNull(plain) : plain;
}

function withNull(schema: JsonObject): JsonObject {
  const { type, enum: values, anyOf: schemas } = schema;
  return {
    ...schema,
    ...(typeof type === "string" ? { type: [type, "null"] } : undefined),
    ...(Array.isArray(values) ? { enum: [...(values as readonly unknown[]), null] } : undefined),
    ...(Array.isArray(schemas) ? { anyOf: [...(schemas as readonly unknown[]), { type: "null" }] } : undefined),
  };
}

/** Numbers of 64 bits may be written as strings there. */
const counts: ReadonlySet<string> = new Set(["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"]);
const lists: ReadonlySet<string> = new Set(["anyOf", "prefixItems"]);
const schemas: ReadonlySet<string> = new Set(["items", "additionalProperties"]);
const keywords: ReadonlySet<string> = new Set([...counts, ...lists, ...schemas, "propertyOrdering"]);

/** What nobody here has heard of keeps its name. */
function keywordOf(key: string): string {
  const keyword = camelCase(key);
  return keywords.has(keyword) ? keyword : key;
}

function schemaValue(keyword: string, value: unknown): unknown {
  if (keyword === "type" && typeof value === "string") return value.toLowerCase();
  if (counts.has(keyword) && typeof value === "string" && /^\d{1,9}$/.test(value)) return Number(value);
  if (schemas.has(keyword)) return innerSchema(value);
  if (lists.has(keyword) && Array.isArray(value)) return value.map(innerSchema);
  if (keyword !== "properties" || !isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, innerSchema(one)]));
}

/** `additionalProperties` may be a mere yes or no. */
function innerSchema(value: unknown): unknown {
  return isJsonObject(value) ? jsonSchema(value) : value;
}
