import { useRef } from "preact/hooks";
import type { ChannelAnswer } from "../../core/answers.ts";
import { ApiError, ask } from "../../core/api.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { Dialog, FormActions } from "../../parts/dialog.tsx";
import { TextArea, TextField } from "../../parts/field.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { entryChange, ifUnchanged } from "./channel-entry.ts";

/** All settings of a channel, as in the configuration file, and its keys. */
export function EditChannel({ channel, path, onClose, onChanged }: EditChannelProps) {
  // As it was when the dialog was opened: the page goes on asking, and others may change it meanwhile.
  const { name, entry: shown, etag } = useRef(channel).current;
  const before = shown ?? {};
  const { error, busy, run } = useSubmission(async ({ entry = "", secret = "" }: FormFields) => {
    const change = entryChange(before, entry);
    if (change === null) throw new ApiError(0, "not_json", "The settings must be a JSON object.", "entry", null);
    await ask(path, {
      method: "PATCH",
      body: { entry: change, ...(secret.trim() === "" ? {} : { secrets: [secret.trim()] }) },
      ...ifUnchanged(etag),
    });
    onChanged();
    onClose();
  });
  return (
    <Dialog title={`Change ${name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
        <TextArea
          label="Settings"
          name="entry"
          rows={14}
          initial={JSON.stringify(before, null, 2)}
          error={error.value}
          hint="As in the configuration file, in JSON. What you remove has its default again. The values of headers are hidden, and stay as they are unless you change them."
        />
        <TextField
          label="New key"
          name="secret"
          type="password"
          autoComplete="off"
          error={error.value}
          hint="It replaces all of its keys. Empty: they stay as they are."
        />
        <ErrorNote error={error.value} />
        <FormActions action="Change it" busy={busy.value} onCancel={onClose} />
      </form>
    </Dialog>
  );
}

interface EditChannelProps {
  readonly channel: ChannelAnswer;
  readonly path: string;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}
