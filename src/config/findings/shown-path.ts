import type { z } from "zod";
import { shapeOf } from "../field.ts";
import { pathText, type Path } from "./problem.ts";

/**
 * A path as far as it consists of known settings. Names beyond them are the author's own and might be a secret in the wrong place; the
 * line number tells the rest.
 */
export function shownPath(schema: z.core.$ZodType, path: Path): string {
  const shown: (string | number)[] = [];
  let shape = shapeOf(schema);
  for (const step of path) {
    if (typeof step === "string") {
      const inner = shape !== null && Object.hasOwn(shape, step) ? shape[step] : undefined;
      if (inner === undefined) break;
      shape = shapeOf(inner);
    }
    shown.push(step);
  }
  return pathText(shown);
}

/** The settings that exist below a path. */
export function settingsAt(schema: z.core.$ZodType, path: Path): readonly string[] {
  let shape = shapeOf(schema);
  for (const step of path) {
    if (typeof step === "number") continue;
    const inner = shape?.[step];
    if (inner === undefined) return [];
    shape = shapeOf(inner);
  }
  return Object.keys(shape ?? {});
}
