import type { AuditEntry } from "../../gateway/storage.ts";
import { auditEntryView } from "../audit-export.ts";
import type { ManageContext } from "../context.ts";
import { groupNames } from "../group-search.ts";
import { keyNames } from "../key-search.ts";
import { fieldChangesOf } from "./field-changes.ts";
import { undoPlanOf } from "./undo-plan.ts";

/**
 * A change with what it did to each field, and whether it can be taken back, under the field names of the admin API. `ownGroup` is the
 * group that a group admin manages: they change what is in it, and not the group itself.
 */
export function historyEntryView(entry: AuditEntry, subjectName: string | null, ownGroup: string | null = null) {
  const { detail: _, ...head } = auditEntryView(entry);
  const plan =
    ownGroup !== null && entry.subject === ownGroup ? { why: "Your own group is managed by those above it." } : undoPlanOf(entry);
  const undo =
    "why" in plan
      ? { possible: false, words: plan.why, remarks: [], needs_secrets: false }
      : { possible: true, words: plan.words, remarks: [...plan.remarks], needs_secrets: plan.needsSecrets };
  return { ...head, subject_name: subjectName, changes: [...fieldChangesOf(entry)], undo };
}

/** The log has the ids of keys and groups, and people know their names. */
export async function subjectNames(context: ManageContext, entries: readonly AuditEntry[]): Promise<ReadonlyMap<string, string>> {
  const subjects = (kind: string): readonly string[] =>
    entries.filter(({ action }) => action.startsWith(kind) || action === "audit.undo").map(({ subject }) => subject);
  const keys = await keyNames(context, subjects("key."), entries.length);
  const groups = await groupNames(context, subjects("group."));
  return new Map([...keys, ...groups]);
}
