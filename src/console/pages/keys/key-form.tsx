import type { KeyAnswer } from "../../core/answers.ts";
import type { ApiError } from "../../core/api.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, type FormFields, type Submission } from "../../core/submit.ts";
import { FormActions } from "../../parts/dialog.tsx";
import { SelectField, TextArea, TextField } from "../../parts/field.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { periodOptions } from "./limits.ts";

/** The fields of a key, for a new one and for one that is changed. */
export function KeyForm({ of, action, submission, onCancel }: KeyFormProps) {
  const { error, busy, run } = submission;
  const limits = of?.limits ?? {};
  const text = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
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
      <GroupField of={of} error={error.value} />
      <div class="columns">
        <TextField
          label="Budget in dollars"
          name="budget_usd"
          type="number"
          min={0}
          step="any"
          initial={text(limits.budget_usd)}
          error={error.value}
        />
        <SelectField label="For" name="budget_period" options={periodOptions} initial={limits.budget_period ?? "month"} />
      </div>
      <div class="columns">
        <TextField label="Requests a minute" name="rpm" type="number" min={1} initial={text(limits.rpm)} error={error.value} />
        <TextField label="Tokens a minute" name="tpm" type="number" min={1} initial={text(limits.tpm)} error={error.value} />
        <TextField
          label="At the same time"
          name="concurrency"
          type="number"
          min={1}
          initial={text(limits.concurrency)}
          error={error.value}
        />
      </div>
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

/** Names can be chosen from those that there are; without groups there is nothing to ask. */
function GroupField({ of, error }: { readonly of: KeyAnswer | null; readonly error: ApiError | null }) {
  const loaded = useLoaded<{ readonly groups: readonly { readonly id: string; readonly name: string }[] }>("/groups");
  const groups = loaded.data.value?.groups ?? [];
  if (groups.length === 0) return null;
  const own = groups.find(({ id }) => id === of?.group);
  return (
    <>
      <TextField
        label="Group"
        name="group"
        list="groups"
        initial={own?.name ?? of?.group ?? undefined}
        error={error}
        hint="Its limits and budgets apply as well. Empty: none."
      />
      <datalist id="groups">
        {groups.slice(0, 500).map(({ id, name }) => (
          <option key={id} value={name} />
        ))}
      </datalist>
    </>
  );
}

interface KeyFormProps {
  /** Null for a new key. */
  readonly of: KeyAnswer | null;
  readonly action: string;
  readonly submission: Submission<FormFields>;
  readonly onCancel: () => void;
}
