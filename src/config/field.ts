import { z } from "zod";
import { orVariable, type SchemaFragment } from "./json-schema/fragment.ts";
import { InvalidValue, type Kind } from "./kinds.ts";

// A configuration is read once in a while: compiling a parser for each schema takes longer than it saves.
z.config({ jitless: true });

/** The documentation of a setting, kept with its schema so that the two cannot diverge. */
export interface Notes {
  readonly about: string;
  readonly type: string;
  /** As it would be written in the file, or in words if it depends on something. */
  readonly default: string | null;
  /** The default as a value, if there is one. */
  readonly defaultValue?: string | number | boolean;
  readonly required: boolean;
  /** Without the group, nothing in it applies. */
  readonly isOptionalGroup?: boolean;
  /** What an editor can check; null for groups, which are made of their settings. */
  readonly json: SchemaFragment | null;
  readonly secrecy: Kind<unknown>["secrecy"] | null;
}

export function required<T>(kind: Kind<T>, about: string) {
  return noted(fieldOf(kind), { about, type: kind.type, default: null, required: true, ...checksOf(kind) });
}

/** A setting without a default value. `otherwise` describes what happens without it. */
export function optional<T>(kind: Kind<T>, about: string, otherwise: string | null = null) {
  return noted(fieldOf(kind).optional(), { about, type: kind.type, default: otherwise, required: false, ...checksOf(kind) });
}

/** The default is parsed like any other value, so the documentation shows what really happens. */
export function defaulted<T>(kind: Kind<T>, value: string | number | boolean, about: string) {
  return noted(fieldOf(kind).prefault(value), {
    about,
    type: kind.type,
    default: `\`${value}\``,
    defaultValue: value,
    required: false,
    ...checksOf(kind),
  });
}

/** A group of settings that may be left out; its settings then have their defaults. */
export function group<S extends z.ZodRawShape>(shape: S, about: string) {
  return noted(z.strictObject(shape).prefault({} as never), { about, type: "group", ...groupNotes });
}

/** A group whose absence means that nothing in it applies. */
export function optionalGroup<S extends z.ZodRawShape>(shape: S, about: string) {
  return noted(z.strictObject(shape).optional(), { about, type: "group", ...groupNotes, isOptionalGroup: true });
}

export function groups<S extends z.ZodRawShape>(shape: S, about: string) {
  return noted(z.array(z.strictObject(shape)).prefault([]), {
    about,
    type: "list of groups",
    ...groupNotes,
  });
}

export function notesOf(schema: z.core.$ZodType): Notes | null {
  return notes.get(schema) ?? null;
}

/** The settings of a group, or of each group in a list; null for a single value. */
export function shapeOf(schema: z.core.$ZodType): Readonly<Record<string, z.core.$ZodType>> | null {
  if (schema instanceof z.ZodObject) return schema.shape;
  if (schema instanceof z.ZodArray) return shapeOf(schema.element);
  if (schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) return shapeOf(schema.unwrap());
  return null;
}

const groupNotes = { default: null, required: false, json: null, secrecy: null } as const;

function checksOf(kind: Kind<unknown>): Pick<Notes, "json" | "secrecy"> {
  return { json: orVariable(kind.json), secrecy: kind.secrecy ?? null };
}

const notes = new WeakMap<z.core.$ZodType, Notes>();

function noted<S extends z.ZodType>(schema: S, note: Notes): S {
  notes.set(schema, note);
  return schema;
}

function fieldOf<T>(kind: Kind<T>) {
  return z.unknown().transform((value, context): T => {
    const read = kind.read(value);
    if (!(read instanceof InvalidValue)) return read;
    context.addIssue({ code: "custom", message: read.reason, params: { fix: read.fix }, path: [...read.path] });
    return z.NEVER;
  });
}
