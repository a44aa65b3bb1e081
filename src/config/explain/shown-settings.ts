import type { z } from "zod";
import { hidden, withoutUserInfo } from "../../channels/user-info.ts";
import { notesOf, shapeOf, type Notes } from "../field.ts";
import { isGroup } from "../kinds.ts";
import { fileSchema } from "../schema.ts";
import { withoutSecrets } from "./without-secrets.ts";

/** A setting as it may be shown to whoever must not know secrets. */
export interface ShownSetting {
  /** Within its part, such as `limits.rpm`; empty where the part is one setting. */
  readonly path: string;
  readonly value: unknown;
  readonly shown: unknown;
  /** Whether two values may be shown in the same way. */
  readonly isHidden: boolean;
}

/** What is set in a section of the file, or in one entry of a section that is a list. */
export function shownSettings(section: string, value: unknown): readonly ShownSetting[] {
  const schema = shapeOf(fileSchema)?.[section];
  return schema === undefined ? [] : [...settingsIn(schema, value, [])];
}

function* settingsIn(schema: z.core.$ZodType, value: unknown, path: readonly (string | number)[]): Generator<ShownSetting> {
  const shape = shapeOf(schema);
  if (shape === null) yield shownSetting(notesOf(schema), value, path);
  else if (Array.isArray(value)) for (const [index, item] of value.entries()) yield* settingsIn(schema, item, [...path, index]);
  else {
    for (const [name, inner] of Object.entries(isGroup(value) ? value : {})) {
      const setting = Object.hasOwn(shape, name) ? shape[name] : undefined;
      if (setting !== undefined) yield* settingsIn(setting, inner, [...path, name]);
    }
  }
}

function shownSetting(notes: Notes | null, value: unknown, path: readonly (string | number)[]): ShownSetting {
  const secrecy = notes?.secrecy ?? null;
  const shown = secrecy === "whole" ? hidden : withoutUserInfo(withoutSecrets(value, secrecy));
  return { path: path.join("."), value, shown, isHidden: JSON.stringify(shown) !== JSON.stringify(value) };
}
