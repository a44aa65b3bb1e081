import type { KeyAnswer } from "../../core/answers.ts";
import { limitsBody, listOf } from "../../core/limits.ts";

/** What the form of a key says, as the admin API takes it. An empty field is no limit; limits that it does not show stay as they are. */
export function keyBody(
  fields: Readonly<Record<string, string>>,
  before: Pick<KeyAnswer, "limits" | "expires_at"> | null,
): Readonly<Record<string, unknown>> {
  const text = (name: string): string => (fields[name] ?? "").trim();
  const models = listOf(text("models"));
  return {
    name: text("name"),
    owner: text("owner") === "" ? null : text("owner"),
    note: text("note") === "" ? null : text("note"),
    models: models.length === 0 ? null : models,
    // Where there are no groups, the form does not ask for one.
    ...(fields["group"] === undefined ? {} : { group: text("group") === "" ? null : text("group") }),
    limits: limitsBody(fields, before?.limits ?? {}),
    expires_at: expiryOf(text("expires_at"), before?.expires_at ?? null),
  };
}

/** The form shows the day only: one that was not changed keeps its time. */
function expiryOf(day: string, before: string | null): string | null {
  if (day === "") return null;
  return before?.slice(0, 10) === day ? before : day;
}
