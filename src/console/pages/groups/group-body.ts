import type { GroupAnswer } from "../../core/answers.ts";
import { limitsBody } from "../../core/limits.ts";

/** Before the names of the fields for the limits of each key below a group. */
export const keyPrefix = "key_";

/** What the form of a group says, as the admin API takes it. */
export function groupBody(fields: Readonly<Record<string, string>>, before: GroupAnswer | null): Readonly<Record<string, unknown>> {
  const text = (name: string): string => (fields[name] ?? "").trim();
  return {
    name: text("name"),
    kind: text("kind"),
    // Where there is no other group, the form does not ask for one.
    ...(fields["parent"] === undefined ? {} : { parent: text("parent") === "" ? null : text("parent") }),
    note: text("note") === "" ? null : text("note"),
    limits: limitsBody(fields, before?.limits ?? {}),
    default_key_limits: limitsBody(fields, before?.defaults.keys ?? {}, keyPrefix),
  };
}
