import { ask } from "../../core/api.ts";
import { go, pathTo } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { Dialog, FormActions } from "../../parts/dialog.tsx";
import { TextArea, TextField } from "../../parts/field.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { channelEntry } from "./channel-entry.ts";

interface PresetAnswer {
  readonly name: string;
  readonly base_url: string | null;
}

/** A new channel of the store: a provider by its name, or an address; its keys are written once and never shown. */
export function AddChannel({ onClose, onAdded }: { readonly onClose: () => void; readonly onAdded: () => void }) {
  const presets = useLoaded<{ readonly providers: readonly PresetAnswer[] }>("/providers");
  const { error, busy, run } = useSubmission(async (fields: FormFields) => {
    const { name = "" } = fields;
    await ask("/channels", { method: "POST", body: { name: name.trim(), ...channelEntry(fields) } });
    onAdded();
    onClose();
    go(pathTo("channel", { name: name.trim() }));
  });
  return (
    <Dialog title="Add a channel" onClose={onClose}>
      <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
        <div class="columns">
          <TextField label="Name" name="name" required autoFocus error={error.value} placeholder="main" />
          <TextField
            label="Provider"
            name="provider"
            list="providers"
            error={error.value}
            hint="One that is known by name, or none and an address."
          />
        </div>
        <datalist id="providers">
          {presets.data.value?.providers.map(({ name, base_url }) => (
            <option key={name} value={name}>
              {base_url ?? ""}
            </option>
          ))}
        </datalist>
        <TextField
          label="Address"
          name="base_url"
          placeholder="https://api.example.com/v1"
          error={error.value}
          hint="Not needed for a known provider."
        />
        <TextField
          label="Key"
          name="secret"
          type="password"
          autoComplete="off"
          error={error.value}
          hint="It is encrypted, and never shown again."
        />
        <TextArea
          label="Models"
          name="models"
          rows={3}
          error={error.value}
          hint="One in each line, as clients name it; with the upstream's name after = where it differs. Empty: the channel is asked what it has."
          placeholder={"fast = llama-3.3-70b-versatile"}
        />
        <div class="columns">
          <TextField
            label="Tier"
            name="tier"
            type="number"
            min={0}
            placeholder="1"
            error={error.value}
            hint="Empty: 1, or 1000 for the models of this machine."
          />
          <TextField label="Weight" name="weight" type="number" min={0} initial="1" error={error.value} />
        </div>
        <ErrorNote error={error.value} />
        <FormActions action="Add" busy={busy.value} onCancel={onClose} />
      </form>
    </Dialog>
  );
}
