import type { GroupAnswer } from "../../core/answers.ts";
import { ask } from "../../core/api.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { Dialog, FormActions } from "../../parts/dialog.tsx";
import { SelectField, TextArea, TextField } from "../../parts/field.tsx";
import { GroupField, LimitFields } from "../../parts/limit-fields.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { groupBody, keyPrefix } from "./group-body.ts";

const kinds = [
  ["organisation", "Organisation"],
  ["team", "Team"],
  ["project", "Project"],
  ["group", "Group"],
] as const;

/** Creates a group, or changes one. */
export function GroupForm({ of, parent, onClose, onDone }: GroupFormProps) {
  const { error, busy, run } = useSubmission(async (fields: FormFields) => {
    const path = of === null ? "/groups" : `/groups/${encodeURIComponent(of.id)}`;
    await ask(path, { method: of === null ? "POST" : "PATCH", body: groupBody(fields, of) });
    onDone();
    onClose();
  });
  return (
    <Dialog title={of === null ? "Create a group" : `Change ${of.name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
        <div class="columns">
          <TextField label="Name" name="name" required autoFocus initial={of?.name} error={error.value} placeholder="web" />
          <SelectField label="Kind" name="kind" options={kinds} initial={of?.kind ?? "team"} />
        </div>
        <GroupField
          name="parent"
          label="Below"
          id={of === null ? parent : of.parent}
          error={error.value}
          hint="Its calls count for that group as well. Empty: none."
        />
        <fieldset class="stack">
          <legend>All of its keys together</legend>
          <LimitFields of={of?.limits ?? {}} error={error.value} />
        </fieldset>
        <details open={Object.keys(of?.defaults.keys ?? {}).length > 0}>
          <summary>Each key that sets no limit itself</summary>
          <div class="stack">
            <LimitFields of={of?.defaults.keys ?? {}} error={error.value} prefix={keyPrefix} />
          </div>
        </details>
        <TextArea label="Note" name="note" rows={2} initial={of?.note ?? undefined} error={error.value} />
        <ErrorNote error={error.value} />
        <FormActions action={of === null ? "Create" : "Change it"} busy={busy.value} onCancel={onClose} />
      </form>
    </Dialog>
  );
}

interface GroupFormProps {
  /** Null for a new group. */
  readonly of: GroupAnswer | null;
  /** The group that a new one is put below, by id. */
  readonly parent: string | null;
  readonly onClose: () => void;
  readonly onDone: () => void;
}
