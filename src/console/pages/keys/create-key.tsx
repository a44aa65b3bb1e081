import { useSignal } from "@preact/signals";
import type { KeyAnswer } from "../../core/answers.ts";
import { ask } from "../../core/api.ts";
import { pathTo } from "../../core/location.ts";
import { useSubmission, type FormFields } from "../../core/submit.ts";
import { Secret } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { KeyForm } from "./key-form.tsx";
import { keyBody } from "./key-body.ts";

export type CreatedKey = KeyAnswer & { readonly token: string | null };

export function CreateKey({ onClose, onCreated }: { readonly onClose: () => void; readonly onCreated: () => void }) {
  const created = useSignal<CreatedKey | null>(null);
  const submission = useSubmission(async (fields: FormFields) => {
    created.value = await ask<CreatedKey>("/keys", { method: "POST", body: keyBody(fields, null) });
    onCreated();
  });
  if (created.value !== null) return <NewToken created={created.value} onClose={onClose} />;
  return (
    <Dialog title="Create a key" onClose={onClose}>
      <KeyForm of={null} action="Create" submission={submission} onCancel={onClose} />
    </Dialog>
  );
}

/** Changes a key. Limits that the form does not show stay as they are. */
export function EditKey({ of, path, onClose, onChanged }: EditKeyProps) {
  const submission = useSubmission(async (fields: FormFields) => {
    await ask(path, { method: "PATCH", body: keyBody(fields, of) });
    onChanged();
    onClose();
  });
  return (
    <Dialog title={`Change ${of.name}`} onClose={onClose}>
      <KeyForm of={of} action="Change it" submission={submission} onCancel={onClose} />
    </Dialog>
  );
}

interface EditKeyProps {
  readonly of: KeyAnswer;
  readonly path: string;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function NewToken({ created, onClose }: { readonly created: CreatedKey; readonly onClose: () => void }) {
  return (
    <Dialog title={`The key of ${created.name}`} onClose={onClose}>
      <p>This is the only time it is shown. Only its hash is stored.</p>
      <Secret text={created.token ?? ""} />
      <footer>
        <a class="button" href={pathTo("setup")} onClick={onClose}>
          Set up a client
        </a>
        <button type="button" class="button main" onClick={onClose}>
          I have copied it
        </button>
      </footer>
    </Dialog>
  );
}
