import type { z } from "zod";
import { nearest } from "./nearest.ts";
import { pathText, type Path, type Problem } from "./problem.ts";
import { settingsAt, shownPath } from "./shown-path.ts";

/** Enough to see what is wrong; the file of another program must not fill the screen. */
const problemsMax = 50;

/** Turns the issues of the schema into problems that a person can act on. */
export function schemaProblems(
  issues: readonly z.core.$ZodIssue[],
  schema: z.core.$ZodType,
  lineOf: (path: Path) => number | null,
): Problem[] {
  return issues.slice(0, problemsMax).flatMap((issue) => {
    const path = issue.path.filter((step) => typeof step !== "symbol");
    if (issue.code === "unrecognized_keys") {
      const known = settingsAt(schema, path);
      return issue.keys.slice(0, problemsMax).map((key) => unknownSetting(key, path, known, lineOf));
    }
    return [{ line: lineOf(path), path: shownPath(schema, path), ...messageFor(issue) }];
  });
}

function unknownSetting(key: string, path: Path, known: readonly string[], lineOf: (path: Path) => number | null): Problem {
  const near = nearest(key, known);
  // A name that does not look like a setting may be a secret in the wrong place.
  const shown = near !== null || /^[A-Za-z_]{1,32}$/.test(key);
  return {
    line: lineOf([...path, key]),
    path: pathText(shown ? [...path, key] : path),
    reason: shown ? "unknown setting" : "there is an unknown setting here",
    fix: near === null ? `remove it; the settings here are ${known.join(", ")}` : `did you mean ${near}?`,
  };
}

function messageFor(issue: z.core.$ZodIssue): Pick<Problem, "reason" | "fix"> {
  if (issue.code === "custom") {
    const fix: unknown = issue.params?.["fix"];
    return { reason: issue.message, fix: typeof fix === "string" ? fix : "" };
  }
  if (issue.code === "invalid_type" && issue.expected === "array") {
    return { reason: "this must be a list", fix: "begin each entry with a dash, or remove the line" };
  }
  return {
    reason: "this must be a group of settings",
    fix: "write name: value lines under it, indented, or remove the line",
  };
}
