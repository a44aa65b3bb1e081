import { money, short } from "../../core/format.ts";
import type { KeyAnswer } from "../../core/answers.ts";

type ShownLimits = KeyAnswer["limits"];

/** The limits of a key in a few words. */
export function limitsText(limits: ShownLimits): string {
  const parts = [
    limits.budget_usd === undefined ? null : `${money(limits.budget_usd)} ${periods[limits.budget_period ?? "total"]}`,
    limits.rpm === undefined ? null : `${short(limits.rpm)} requests/min`,
    limits.tpm === undefined ? null : `${short(limits.tpm)} tokens/min`,
    limits.audio_seconds === undefined ? null : `${short(limits.audio_seconds)} s of audio/min`,
    limits.characters === undefined ? null : `${short(limits.characters)} characters/min`,
    limits.concurrency === undefined ? null : `${limits.concurrency} at a time`,
    limits.per_model === undefined || limits.per_model.length === 0 ? null : `${limits.per_model.length} for single models`,
  ].filter((part) => part !== null);
  return parts.length === 0 ? "none" : parts.join(", ");
}

export const periods: Readonly<Record<NonNullable<ShownLimits["budget_period"]>, string>> = {
  hour: "an hour",
  day: "a day",
  week: "a week",
  month: "a month",
  total: "in all",
};

export const periodOptions: readonly (readonly [value: string, text: string])[] = Object.entries(periods);

/** What the form of a key says, as the admin API takes it. An empty field is no limit; limits that it does not show stay as they are. */
export function keyBody(
  fields: Readonly<Record<string, string>>,
  before: Pick<KeyAnswer, "limits" | "expires_at"> | null,
): Readonly<Record<string, unknown>> {
  const text = (name: string): string => (fields[name] ?? "").trim();
  const numbers = (["rpm", "tpm", "concurrency"] as const).flatMap((name) =>
    text(name) === "" ? [] : [[name, Number(text(name))] as const],
  );
  const models = listOf(text("models"));
  return {
    name: text("name"),
    owner: text("owner") === "" ? null : text("owner"),
    note: text("note") === "" ? null : text("note"),
    models: models.length === 0 ? null : models,
    // Where there are no groups, the form does not ask for one.
    ...(fields["group"] === undefined ? {} : { group: text("group") === "" ? null : text("group") }),
    limits: {
      ...hiddenLimits(before?.limits ?? {}),
      ...Object.fromEntries(numbers),
      ...(text("budget_usd") === "" ? {} : { budget_usd: text("budget_usd"), budget_period: text("budget_period") || "total" }),
    },
    expires_at: expiryOf(text("expires_at"), before?.expires_at ?? null),
  };
}

/** The form shows the day only: one that was not changed keeps its time. */
function expiryOf(day: string, before: string | null): string | null {
  if (day === "") return null;
  return before?.slice(0, 10) === day ? before : day;
}

/** All that the form has no field for, whatever limits there will be. */
function hiddenLimits(limits: ShownLimits): Partial<ShownLimits> {
  const { rpm: _rpm, tpm: _tpm, concurrency: _concurrency, budget_usd: _budget, budget_period: _period, ...hidden } = limits;
  return hidden;
}

/** Names separated by commas or lines. */
export function listOf(text: string): readonly string[] {
  return text
    .split(/[,\n]/)
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** How full a budget is, and when that needs attention. */
export function fullness(spent: number, limit: number): { readonly share: number; readonly tone: "" | "warn" | "bad" } {
  const share = limit <= 0 ? 1 : Math.min(1, spent / limit);
  return { share, tone: share >= 1 ? "bad" : share >= 0.8 ? "warn" : "" };
}
