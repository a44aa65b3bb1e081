import type { z } from "zod";
import { AdminError } from "../admin-error.ts";

/** Parses input with its schema, or returns an error that names the first problem. It never repeats the value, which may be secret. */
export function checkInput(schema: z.ZodObject, value: unknown, what: "field" | "parameter"): { readonly value: unknown } | AdminError {
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  const issue = result.error.issues[0];
  const path = (issue?.path ?? []).map(String).join(".");
  if (issue?.code === "unrecognized_keys") {
    const name = [path, issue.keys[0] ?? ""]
      .filter((part) => part !== "")
      .join(".")
      .slice(0, shownMax);
    const names = Object.keys(schema.shape);
    const known = path !== "" ? "" : names.length === 0 ? ` This route has no ${what}s.` : ` Known ${what}s: ${names.join(", ")}.`;
    return new AdminError(400, `unknown_${what}`, `Unknown ${what} '${name}'.${known}`, name);
  }
  const name = path.slice(0, shownMax);
  const message = (issue?.message ?? "invalid").slice(0, shownMax * 3);
  const isPredicate = /^(?:must|needs) /.test(message);
  const sentence = name === "" ? `${message}.` : `The ${what} '${name}'${isPredicate ? "" : ":"} ${message}.`;
  return new AdminError(400, "invalid_value", sentence, name === "" ? null : name);
}

/** Reads the parameters of a query. Each may be given once. */
export function readQuery(query: string): Readonly<Record<string, string>> | AdminError {
  const found = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(query)) {
    if (found.has(name)) {
      const shown = name.slice(0, shownMax);
      return new AdminError(400, "invalid_value", `The parameter '${shown}' is given more than once.`, shown);
    }
    found.set(name, value);
  }
  return Object.fromEntries(found);
}

const shownMax = 100;
