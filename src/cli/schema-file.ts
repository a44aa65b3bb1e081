import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { unwritable } from "./command-error.ts";
import type { SchemaName } from "./config/arguments.ts";

/** The text of a JSON Schema of this version. */
export type SchemaText = (name: SchemaName) => Promise<string>;

/** The files that the first lines of configurations and resource files name. */
const schemaFiles = { configuration: "sluice.schema.json", resources: "sluice-resources.schema.json" } as const;
const schemaCommands = { configuration: "sluice config schema", resources: "sluice config schema --resources" } as const;

export interface WrittenSchema {
  /** Null if it is not there. */
  readonly file: string | null;
  /** What became of it, in a sentence. */
  readonly note: string;
}

/**
 * Writes the schema that the first line of `file` names beside it. Another file of this name stays, unless `replaces` says otherwise. The file
 * can be used without its schema, so that a failure is only told of.
 */
export async function writeSchemaBeside(
  file: string,
  name: SchemaName,
  schemaText: SchemaText,
  replaces: ((path: string) => Promise<boolean>) | null = null,
): Promise<WrittenSchema> {
  const path = join(dirname(file), schemaFiles[name]);
  const text = await schemaText(name);
  try {
    const present = await textOf(path);
    if (present !== null && present !== text && (await replaces?.(path)) !== true) {
      const note = `${path} exists already, and is not the schema of this version: it stays as it is. To replace it: ${schemaCommands[name]} > ${path}`;
      return { file: path, note };
    }
    if (present !== text) await writeFile(path, text, { flag: present === null ? "wx" : "w" });
    return { file: path, note: `Editors complete and check it by the schema in ${path}.` };
  } catch (error) {
    return { file: null, note: unwritable(path, error) };
  }
}

async function textOf(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as { readonly code?: string }).code === "ENOENT") return null;
    throw error;
  }
}
