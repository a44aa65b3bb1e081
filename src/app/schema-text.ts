import type { SchemaText } from "../cli/schema-file.ts";

/** The JSON Schemas, whose text is made where a command needs it: hardly any does. */
export const schemaText: SchemaText = async (name) => (await import("../config/json-schema/published.ts")).publishedSchemaText(name);
