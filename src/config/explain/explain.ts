import type { z } from "zod";
import type { Document } from "../document.ts";
import { notesOf, shapeOf, type Notes } from "../field.ts";
import { pathText, type Path } from "../findings/problem.ts";
import type { Environment } from "../interpolate.ts";
import { isGroup } from "../kinds.ts";
import { fileSchema } from "../schema.ts";
import { withoutSecrets } from "./without-secrets.ts";

/** One setting: its value and where that comes from. */
export interface ExplainedSetting {
  /** Such as `channels.main.timeouts.connect`. Entries of lists are named by their name. */
  readonly path: string;
  /** The same with numbers in place of names, as in messages about the file. */
  readonly numbered: string;
  /** As it is written, without secrets; null if it is not set. */
  readonly value: unknown;
  readonly origin: "file" | "environment" | "default";
  /** The line of the file. */
  readonly line: number | null;
  /** The variables that the value is made of. */
  readonly variables: readonly string[];
  /** What happens without a value, in words. */
  readonly otherwise: string | null;
  readonly about: string;
}

/** Every setting of a valid configuration, in the order of the documentation. */
export function explainedSettings(document: Document, env: Environment): readonly ExplainedSetting[] {
  return [...settingsIn(fileSchema, document.value, [], [], { document, env })];
}

interface ExplainedSource {
  readonly document: Document;
  readonly env: Environment;
}

function* settingsIn(
  schema: z.core.$ZodType,
  value: unknown,
  path: Path,
  shown: Path,
  source: ExplainedSource,
): Generator<ExplainedSetting> {
  const given = isGroup(value) ? value : {};
  for (const [name, setting] of Object.entries(shapeOf(schema) ?? {})) {
    const notes = notesOf(setting);
    if (notes === null) continue;
    const [inner, at, named] = [Object.hasOwn(given, name) ? given[name] : undefined, [...path, name], [...shown, name]];
    if (shapeOf(setting) === null) yield explained(notes, inner, at, named, source);
    else if (Array.isArray(inner)) yield* entriesIn(setting, inner, at, named, source);
    else if (inner !== undefined || !isAbsentWhole(notes)) yield* settingsIn(setting, inner, at, named, source);
    else yield explained(notes, undefined, at, named, source);
  }
}

function* entriesIn(
  setting: z.core.$ZodType,
  entries: readonly unknown[],
  at: Path,
  named: Path,
  source: ExplainedSource,
): Generator<ExplainedSetting> {
  for (const [index, entry] of entries.entries()) {
    yield* settingsIn(setting, entry, [...at, index], [...named, nameOf(entry) ?? index], source);
  }
}

/** A list without entries, and a group whose absence means that nothing of it applies, are one setting. */
function isAbsentWhole({ type, isOptionalGroup }: Notes): boolean {
  return type === "list of groups" || isOptionalGroup === true;
}

function nameOf(entry: unknown): string | null {
  const name = isGroup(entry) ? (entry["name"] ?? entry["model"]) : null;
  return typeof name === "string" ? name : null;
}

function explained(notes: Notes, value: unknown, at: Path, named: Path, { document, env }: ExplainedSource): ExplainedSetting {
  const shared = { path: namedPath(named), numbered: pathText(at), about: notes.about };
  if (value === undefined) {
    const otherwise = notes.defaultValue === undefined ? (notes.default ?? null) : null;
    return { ...shared, value: notes.defaultValue ?? null, origin: "default", line: null, variables: [], otherwise };
  }
  const variables = document.variablesOf(at);
  const line = document.lineOf(at);
  // As in a shell, an empty variable counts as one that is not set.
  const isFromEnvironment = variables.some((name) => (env[name] ?? "") !== "");
  return {
    ...shared,
    value: withoutSecrets(value, notes.secrecy),
    // What a gateway without a file adds by itself has neither a line nor a variable.
    origin: isFromEnvironment ? "environment" : line === null ? "default" : "file",
    line,
    variables,
    otherwise: null,
  };
}

/** Names of entries may contain dots, which is harmless: paths are compared, not taken apart. */
function namedPath(path: Path): string {
  return path.join(".");
}
