import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/**
 * A JSON schema with nothing in it but what the API can enforce on an answer. `left` gets the names of the constraints that had to be
 * left out; a word that is not a constraint is left out without a word.
 */
export function enforceableSchema(schema: JsonObject, left: Set<string>): JsonObject {
  return mapped(schema, { keeps: enforced, left, strings: false });
}

/**
 * The same as the subset of OpenAPI 3.0 that older models take. It has no references: local ones are replaced by what they refer to. One
 * that refers to itself becomes any object, because it has no end.
 */
export function openApiSchema(schema: JsonObject, left: Set<string>): JsonObject {
  const definitions = { ...objectOf(schema["definitions"]), ...objectOf(schema["$defs"]) };
  const budget = { nodes: nodesMax };
  const inlined = withoutReferences(schema, definitions, [], budget);
  return mapped(isJsonObject(inlined) ? inlined : {}, { keeps: openApi, left, strings: true });
}

/** A schema that is inlined many times over can be exponentially large. */
const nodesMax = 20_000;
/** References inside of what references refer to. */
const referencesMax = 32;
const anyObject: JsonObject = { type: "object" };

interface SchemaRules {
  readonly keeps: ReadonlySet<string>;
  readonly left: Set<string>;
  /** The values of an enumeration are strings, and a type that may be null says so apart. */
  readonly strings: boolean;
}

const enforced: ReadonlySet<string> = new Set([
  ...["$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems"],
  ...["minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required", "propertyOrdering"],
]);

const openApi: ReadonlySet<string> = new Set([
  ...["type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "minimum", "maximum", "anyOf"],
  ...["properties", "required", "propertyOrdering", "minLength", "maxLength", "pattern", "minProperties", "maxProperties"],
]);

/** What limits the values that are valid. Everything else that a schema may say explains it. */
const constraints: ReadonlySet<string> = new Set([
  ...["allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "contains", "minContains", "maxContains"],
  ...["patternProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems", "uniqueItems"],
  ...["exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minProperties", "maxProperties"],
]);

function mapped(schema: JsonObject, rules: SchemaRules): JsonObject {
  const clean: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key === "const") addEnum(clean, [value], rules);
    else if (key === "enum" && Array.isArray(value)) addEnum(clean, value as readonly unknown[], rules);
    else if (key === "type" && rules.strings) addType(clean, value);
    else if ((key === "oneOf" || key === "allOf") && rules.strings) addAlternatives(clean, key, value, rules);
    else if (!rules.keeps.has(key)) {
      if (constraints.has(key)) rules.left.add(`schema.${key}`);
    } else clean[key] = mappedValue(key, value, rules);
  }
  return clean;
}

function mappedValue(key: string, value: unknown, rules: SchemaRules): unknown {
  if (key === "properties" || key === "$defs") {
    return Object.fromEntries(Object.entries(objectOf(value)).map(([name, one]) => [name, isJsonObject(one) ? mapped(one, rules) : one]));
  }
  if (key === "items" || key === "additionalProperties") return isJsonObject(value) ? mapped(value, rules) : value;
  if (listsSchemas.has(key) && Array.isArray(value)) return mappedList(value, rules);
  return value;
}

const listsSchemas: ReadonlySet<string> = new Set(["anyOf", "oneOf", "prefixItems"]);

function mappedList(values: readonly unknown[], rules: SchemaRules): readonly unknown[] {
  return values.map((one) => (isJsonObject(one) ? mapped(one, rules) : one));
}

/** An enumeration of numbers is refused by some models: its values are written as strings there. */
function addEnum(clean: Record<string, unknown>, values: readonly unknown[], { strings }: SchemaRules): void {
  if (!strings) {
    clean["enum"] = values;
    return;
  }
  clean["enum"] = values.filter((value) => value !== null).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  if (values.includes(null)) clean["nullable"] = true;
  clean["type"] = "string";
}

function addType(clean: Record<string, unknown>, value: unknown): void {
  // An enumeration has made it a string already.
  if (clean["enum"] !== undefined) return;
  if (!Array.isArray(value)) {
    clean["type"] = value;
    return;
  }
  const types = (value as readonly unknown[]).filter((type) => type !== "null");
  if (types.length < value.length) clean["nullable"] = true;
  if (types.length === 1) clean["type"] = types[0];
  else clean["anyOf"] = types.map((type) => ({ type }));
}

/** One of several is any of them here; all of several are merged, where they are objects that say different things. */
function addAlternatives(clean: Record<string, unknown>, key: "oneOf" | "allOf", value: unknown, rules: SchemaRules): void {
  const schemas = Array.isArray(value) ? (value as readonly unknown[]).filter(isJsonObject) : [];
  if (key === "oneOf") {
    clean["anyOf"] = mappedList(schemas, rules);
    return;
  }
  for (const schema of schemas) {
    const { properties, required, ...others } = mapped(schema, rules);
    if (properties !== undefined) clean["properties"] = { ...objectOf(clean["properties"]), ...objectOf(properties) };
    if (Array.isArray(required)) clean["required"] = [...listOf(clean["required"]), ...(required as readonly unknown[])];
    for (const [name, one] of Object.entries(others)) clean[name] ??= one;
  }
}

function withoutReferences(value: unknown, definitions: JsonObject, inside: readonly string[], budget: { nodes: number }): unknown {
  if (--budget.nodes < 0) return anyObject;
  if (Array.isArray(value)) return value.map((one: unknown) => withoutReferences(one, definitions, inside, budget));
  if (!isJsonObject(value)) return value;
  const name = typeof value["$ref"] === "string" ? /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(value["$ref"])?.[1] : undefined;
  if (name !== undefined) {
    const { $ref: _, ...beside } = value;
    const isEndless = inside.includes(name) || inside.length >= referencesMax;
    const referred = isEndless || !Object.hasOwn(definitions, name) ? anyObject : definitions[name];
    const resolved = withoutReferences(referred, definitions, [...inside, name], budget);
    return isJsonObject(resolved) ? { ...resolved, ...beside } : resolved;
  }
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutReferences(one, definitions, inside, budget)]));
}

function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}
