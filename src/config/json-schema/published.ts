import type { z } from "zod";
import { notesOf, shapeOf } from "../field.ts";
import { resourceFileSchema } from "../resource-file/schema.ts";
import { fileSchema } from "../schema.ts";
import { variableDefinition, type SchemaFragment } from "./fragment.ts";

const published = {
  configuration: { title: "The configuration of Sluice", schema: fileSchema },
  resources: { title: "The channels, groups, keys and prices in the store of Sluice", schema: resourceFileSchema },
} as const;

export type PublishedSchemaName = keyof typeof published;

/** The JSON Schema of a file, made of the settings that its reader knows, with which editors complete and check it. */
export function publishedSchema(name: PublishedSchemaName): SchemaFragment {
  const { title, schema } = published[name];
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title,
    ...objectOf(schema),
    // A file without any setting is refused.
    minProperties: 1,
    definitions: { variable: variableDefinition },
  };
}

/** The text of `schema/sluice.schema.json` and `schema/sluice-resources.schema.json`. */
export function publishedSchemaText(name: PublishedSchemaName): string {
  return `${JSON.stringify(publishedSchema(name), null, 2)}\n`;
}

function objectOf(schema: z.core.$ZodType): SchemaFragment {
  const settings = Object.entries(shapeOf(schema) ?? {});
  const required = settings.filter(([, setting]) => notesOf(setting)?.required === true).map(([name]) => name);
  return {
    type: "object",
    properties: Object.fromEntries(settings.map(([name, setting]) => [name, fragmentOf(setting)])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
}

function fragmentOf(setting: z.core.$ZodType): SchemaFragment {
  const notes = notesOf(setting);
  if (notes === null) return {};
  const { about, json, defaultValue, type } = notes;
  const inWords = notes.default === null || defaultValue !== undefined ? "" : ` Default: ${notes.default}.`;
  const description = { description: `${about}${inWords}`, ...(defaultValue === undefined ? {} : { default: defaultValue }) };
  if (json !== null) return { ...description, ...json };
  const group = objectOf(setting);
  return type === "list of groups" ? { ...description, type: "array", items: group } : { ...description, ...group };
}
