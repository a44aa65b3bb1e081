import { useId } from "preact/hooks";
import type { ApiError } from "../core/api.ts";
import { periodOptions, type ShownLimits } from "../core/limits.ts";
import { useLoaded } from "../core/query.ts";
import { SelectField, TextField } from "./field.tsx";

/** The limits that most keys and groups have. */
export function LimitFields({ of: limits, error, prefix = "" }: LimitFieldsProps) {
  const number = (name: "budget_usd" | "rpm" | "tpm" | "concurrency", label: string, min: number) => (
    <TextField
      label={label}
      name={`${prefix}${name}`}
      type="number"
      min={min}
      step={name === "budget_usd" ? "any" : "1"}
      initial={limits[name] === undefined ? undefined : String(limits[name])}
      error={error}
    />
  );
  return (
    <>
      <div class="columns">
        {number("budget_usd", "Budget in dollars", 0)}
        <SelectField label="For" name={`${prefix}budget_period`} options={periodOptions} initial={limits.budget_period ?? "month"} />
      </div>
      <div class="columns">
        {number("rpm", "Requests a minute", 1)}
        {number("tpm", "Tokens a minute", 1)}
        {number("concurrency", "At the same time", 1)}
      </div>
    </>
  );
}

interface LimitFieldsProps {
  readonly of: ShownLimits;
  readonly error: ApiError | null;
  /** Before the names of its fields, where a form has limits twice. */
  readonly prefix?: string;
}

/** A group by its name, which can be chosen from those that there are; without groups there is nothing to ask. */
export function GroupField({ id, name, label, hint, error }: GroupFieldProps) {
  const list = useId();
  const loaded = useLoaded<{ readonly groups: readonly { readonly id: string; readonly name: string }[] }>("/groups", { limit: 200 });
  const groups = loaded.data.value?.groups ?? [];
  if (groups.length === 0) return null;
  const own = groups.find((group) => group.id === id);
  return (
    <>
      <TextField label={label} name={name} list={list} initial={own?.name ?? id ?? undefined} error={error} hint={hint} />
      <datalist id={list}>
        {groups.map((group) => (
          <option key={group.id} value={group.name} />
        ))}
      </datalist>
    </>
  );
}

interface GroupFieldProps {
  /** The group that is set. */
  readonly id: string | null;
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly error: ApiError | null;
}
