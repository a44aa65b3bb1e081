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
  const rule = issue === undefined ? "is invalid" : ruleOf(issue).slice(0, shownMax * 3);
  const subject = name === "" ? "The request body" : `The ${what} '${name}'`;
  return new AdminError(400, "invalid_value", `${subject} ${rule}.`, name === "" ? null : name);
}

/** What an issue says, as the rest of a sentence. Our own messages begin with a verb; those of the library are replaced. */
function ruleOf(issue: z.core.$ZodIssue): string {
  if (/^(?:must|needs) /.test(issue.message)) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return issue.message.endsWith("received undefined") ? "is required" : `must be ${typeNames[issue.expected] ?? issue.expected}`;
    case "invalid_value":
      return `must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.map(String).join(", ")}`;
    case "too_small":
      return sizeRule(issue.origin, "at least", issue.minimum);
    case "too_big":
      return sizeRule(issue.origin, "at most", issue.maximum);
    default:
      return "is invalid";
  }
}

function sizeRule(origin: string, bound: "at least" | "at most", size: number | bigint): string {
  if (origin === "string") return `must have ${bound} ${size} characters`;
  if (origin === "array") return `must have ${bound} ${size} items`;
  return `must be ${bound} ${size}`;
}

const typeNames: Readonly<Partial<Record<string, string>>> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

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
