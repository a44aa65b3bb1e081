import type { AuditEntry } from "../../gateway/storage.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/** What a change did to one field. Secrets are not in the audit log, so that none can be here. */
export interface LoggedChange {
  /** Such as `limits.requests`. */
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
  /** Only the fact is known: the values are secret, or may contain anything. */
  readonly hidden: boolean;
}

/** An entry of the audit log as the fields that it changed. */
export function fieldChangesOf({ action, detail }: Pick<AuditEntry, "action" | "detail">): readonly LoggedChange[] {
  const { changed, settings, members: _, ...rest } = detail;
  const named = isJsonObject(changed) ? changed : changed === undefined ? {} : { changed };
  const fields = { ...rest, ...(isJsonObject(settings) ? settings : {}), ...named };
  return Object.entries(fields)
    .flatMap(([field, value]) => changesIn(field, value, action))
    .slice(0, changesMax);
}

/** More than any entry has. */
const changesMax = 500;

function changesIn(field: string, value: unknown, action: string): readonly LoggedChange[] {
  if (isFromTo(value)) return differences(field, value.from, value.to);
  if (value === "changed" || value === "replaced") return [{ field, from: null, to: null, hidden: true }];
  const isGone = /\.(remove|delete)$/.test(action);
  return differences(field, isGone ? value : null, isGone ? null : value);
}

export interface FromTo {
  readonly from: unknown;
  readonly to: unknown;
}

export function isFromTo(value: unknown): value is FromTo & JsonObject {
  return isJsonObject(value) && Object.keys(value).length === 2 && "from" in value && "to" in value;
}

/** Of two objects only the members that differ; those of one object, if there is no other. */
function differences(field: string, from: unknown, to: unknown): readonly LoggedChange[] {
  if (sameValue(from, to)) return [];
  const isObjectOrNull = (value: unknown): value is JsonObject | null => value === null || isJsonObject(value);
  if (!isObjectOrNull(from) || !isObjectOrNull(to) || (from === null && to === null)) return [{ field, from, to, hidden: false }];
  const names = new Set([...Object.keys(from ?? {}), ...Object.keys(to ?? {})]);
  return [...names].flatMap((name) => differences(`${field}.${name}`, from?.[name] ?? null, to?.[name] ?? null));
}

/** Whether two values of JSON are the same, whatever the order of their members. A member that is null is as good as none. */
export function sameValue(one: unknown, other: unknown): boolean {
  if (one == null || other == null) return (one ?? null) === (other ?? null);
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, at) => sameValue(item, other[at]));
  }
  if (!isJsonObject(one) || !isJsonObject(other)) return one === other;
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].every((name) => sameValue(one[name], other[name]));
}
