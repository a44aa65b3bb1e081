import type { KeyAnswer } from "../../core/answers.ts";
import { fieldsOf, type FormFields, type Submission } from "../../core/submit.ts";
import { FormActions } from "../../parts/dialog.tsx";
import { TextArea, TextField } from "../../parts/field.tsx";
import { GroupField, LimitFields } from "../../parts/limit-fields.tsx";
import { ErrorNote } from "../../parts/notice.tsx";

/** The fields of a key, for a new one and for one that is changed. */
export function KeyForm({ of, action, submission, onCancel }: KeyFormProps) {
  const { error, busy, run } = submission;
  return (
    <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
      <div class="columns">
        <TextField label="Name" name="name" required autoFocus initial={of?.name} error={error.value} placeholder="laptop" />
        <TextField label="Owner" name="owner" initial={of?.owner ?? undefined} error={error.value} />
      </div>
      <TextField
        label="Models"
        name="models"
        initial={of?.models?.join(", ")}
        error={error.value}
        hint="Names or patterns with *, separated by commas. Empty: all of them."
      />
      <GroupField
        name="group"
        label="Group"
        id={of?.group ?? null}
        error={error.value}
        hint="Its limits and budgets apply as well. Empty: none."
      />
      <LimitFields of={of?.limits ?? {}} error={error.value} />
      <TextField
        label="Expires"
        name="expires_at"
        type="date"
        initial={of?.expires_at?.slice(0, 10)}
        error={error.value}
        hint="Empty: never."
      />
      <TextArea label="Note" name="note" rows={2} initial={of?.note ?? undefined} error={error.value} />
      <ErrorNote error={error.value} />
      <FormActions action={action} busy={busy.value} onCancel={onCancel} />
    </form>
  );
}

interface KeyFormProps {
  /** Null for a new key. */
  readonly of: KeyAnswer | null;
  readonly action: string;
  readonly submission: Submission<FormFields>;
  readonly onCancel: () => void;
}
