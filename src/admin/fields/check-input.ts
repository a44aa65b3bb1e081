import type { z } from "zod";
import { AdminError } from "../admin-error.ts";

/** A value as its schema understands it, or a refusal that names the first thing wrong with it. Values are never repeated. */
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
    const known = path === "" ? `; there are: ${Object.keys(schema.shape).join(", ")}` : "";
    return new AdminError(400, `unknown_${what}`, `Unknown ${what} '${name}'${known}.`, name);
  }
  const name = path.slice(0, shownMax);
  const message = (issue?.message ?? "not as it must be").slice(0, shownMax * 3);
  return new AdminError(
    400,
    "invalid_value",
    name === "" ? `${message}.` : `The ${what} '${name}': ${message}.`,
    name === "" ? null : name,
  );
}

/** The parameters of a query, each given once. */
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
