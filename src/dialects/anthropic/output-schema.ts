import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/**
 * A JSON schema as this API accepts it: objects are closed, and bounds that it does not enforce become a part of the description, so that
 * the model still reads them. The order of keys stays, because the model writes them in that order.
 */
export function outputSchema(schema: JsonObject): JsonObject {
  const kept: Record<string, unknown> = {};
  const bounds: string[] = [];
  for (const [key, value] of Object.entries(schema)) {
    if (isBound(key, value)) bounds.push(`${key}: ${JSON.stringify(value)}`);
    else if (key === "oneOf" || key === "anyOf" || key === "allOf") kept[key === "oneOf" ? "anyOf" : key] = each(value);
    else if (key === "properties" || key === "$defs" || key === "definitions") kept[key] = eachMember(value);
    else if (key === "items") kept[key] = isJsonObject(value) ? outputSchema(value) : value;
    else if (key !== "additionalProperties" && key !== "$schema") kept[key] = value;
  }
  if (bounds.length > 0) {
    const description = typeof kept["description"] === "string" ? `${kept["description"]} ` : "";
    kept["description"] = `${description}(${bounds.join(", ")})`;
  }
  const isClosed = kept["type"] === "object" || kept["properties"] !== undefined;
  return isClosed ? { ...kept, additionalProperties: false } : kept;
}

function each(value: unknown): unknown {
  return Array.isArray(value) ? (value as readonly unknown[]).map((one) => (isJsonObject(one) ? outputSchema(one) : one)) : value;
}

function eachMember(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, isJsonObject(one) ? outputSchema(one) : one]));
}

function isBound(key: string, value: unknown): boolean {
  if (key === "format") return typeof value !== "string" || !formats.has(value);
  if (key === "minItems") return value !== 0 && value !== 1;
  return bounding.has(key);
}

const bounding: ReadonlySet<string> = new Set([
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
  ...["minLength", "maxLength", "pattern", "maxItems", "uniqueItems", "minProperties", "maxProperties", "contains"],
]);

const formats: ReadonlySet<string> = new Set([
  ...["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
]);
