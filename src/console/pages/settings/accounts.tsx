import { useSignal } from "@preact/signals";
import { ask, mayChange, signedIn, type SignedIn } from "../../core/api.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { Secret } from "../../parts/copy.tsx";
import { Confirm, Dialog, FormActions } from "../../parts/dialog.tsx";
import { SelectField, TextField } from "../../parts/field.tsx";
import { Moment } from "../../parts/moment.tsx";
import { GroupField } from "../../parts/limit-fields.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable } from "../../parts/table.tsx";
import { SettingsFrame } from "./settings.tsx";

interface AccountAnswer {
  readonly name: string;
  readonly role: SignedIn["role"];
  readonly created_at: string;
  readonly disabled_at: string | null;
}

interface AdminTokenAnswer {
  readonly name: string;
  readonly role: SignedIn["role"];
  readonly last4: string;
  readonly created_at: string;
  readonly revoked_at: string | null;
}

const roles = [
  ["viewer", "Viewer: may read"],
  ["admin", "Admin: may read and change"],
  ["group_admin", "Group admin: manages the keys of one group"],
] as const;

/** People who may use the console, and programs that may use the admin API. */
export function AccountsPage() {
  if (!mayChange()) {
    return (
      <SettingsFrame title="Accounts">
        <EmptyState title="Only admins see the accounts" />
      </SettingsFrame>
    );
  }
  return (
    <SettingsFrame title="Accounts">
      <Accounts />
      <Tokens />
    </SettingsFrame>
  );
}

function Accounts() {
  const loaded = useLoaded<{ readonly accounts: readonly AccountAnswer[] }>("/accounts");
  const adds = useSignal(false);
  const removes = useSignal("");
  const who = signedIn.value;
  const own = who === null || who === "unknown" ? "" : who.name;
  const edit = useSubmission(
    async ({ name, ...change }: { readonly name: string; readonly disabled?: boolean; readonly role?: string }) => {
      await ask(`/accounts/${encodeURIComponent(name)}`, { method: "PATCH", body: change });
      loaded.reload();
    },
  );
  const remove = useSubmission(async (name: string) => {
    await ask(`/accounts/${encodeURIComponent(name)}`, { method: "DELETE" });
    removes.value = "";
    loaded.reload();
  });
  return (
    <section class="stack">
      <div class="row">
        <h2>People</h2>
        <button type="button" class="button small" onClick={() => (adds.value = true)}>
          Add an account
        </button>
      </div>
      <ErrorNote error={loaded.error.value ?? edit.error.value} onRetry={() => loaded.reload()} />
      <DataTable
        label="Accounts"
        rows={loaded.data.value?.accounts ?? []}
        keyOf={({ name }) => name}
        columns={[
          {
            title: "Name",
            cell: ({ name }) => (
              <>
                {name} {name === own && <Badge tone="accent">you</Badge>}
              </>
            ),
          },
          { title: "Role", cell: ({ role }) => role },
          {
            title: "State",
            cell: ({ disabled_at }) => (
              <Badge tone={disabled_at === null ? "good" : "warn"}>{disabled_at === null ? "active" : "disabled"}</Badge>
            ),
          },
          { title: "Created", cell: ({ created_at }) => <Moment at={created_at} /> },
          {
            title: " ",
            cell: ({ name, disabled_at }) =>
              name !== own && (
                <div class="row">
                  <button type="button" class="button small quiet" onClick={() => edit.run({ name, disabled: disabled_at === null })}>
                    {disabled_at === null ? "Disable" : "Enable"}
                  </button>
                  <button type="button" class="button small quiet" onClick={() => (removes.value = name)}>
                    Remove
                  </button>
                </div>
              ),
          },
        ]}
      />
      {adds.value && <AddAccount onClose={() => (adds.value = false)} onAdded={() => loaded.reload()} />}
      {removes.value !== "" && (
        <Confirm
          title={`Remove ${removes.value}?`}
          action="Remove it"
          onClose={() => (removes.value = "")}
          onConfirm={() => remove.run(removes.value)}
        >
          <p>The account can no longer sign in, and its sessions end. The audit log keeps what it did.</p>
          <ErrorNote error={remove.error.value} />
        </Confirm>
      )}
    </section>
  );
}

function AddAccount({ onClose, onAdded }: { readonly onClose: () => void; readonly onAdded: () => void }) {
  const { error, busy, run } = useSubmission(async (fields: FormFields) => {
    await ask("/accounts", { method: "POST", body: withoutEmpty(fields) });
    onAdded();
    onClose();
  });
  return (
    <Dialog title="Add an account" onClose={onClose}>
      <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
        <TextField label="Name" name="name" required autoFocus autoComplete="off" error={error.value} />
        <SelectField label="Role" name="role" options={roles} />
        <GroupField name="group" label="Group" id={null} error={error.value} hint="Of a group admin; others have none." />
        <TextField
          label="Password"
          name="password"
          type="password"
          autoComplete="new-password"
          minLength={12}
          required
          error={error.value}
          hint="At least 12 characters."
        />
        <ErrorNote error={error.value} />
        <FormActions action="Add" busy={busy.value} onCancel={onClose} />
      </form>
    </Dialog>
  );
}

/** A field that was left empty is not given. */
function withoutEmpty(fields: FormFields): FormFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
}

function Tokens() {
  const loaded = useLoaded<{ readonly tokens: readonly AdminTokenAnswer[] }>("/tokens");
  const adds = useSignal(false);
  const made = useSignal<string | null>(null);
  const create = useSubmission(async (fields: FormFields) => {
    const { token } = await ask<{ readonly token: string }>("/tokens", { method: "POST", body: withoutEmpty(fields) });
    adds.value = false;
    made.value = token;
    loaded.reload();
  });
  const revoke = useSubmission(async (name: string) => {
    await ask(`/tokens/${encodeURIComponent(name)}`, { method: "DELETE" });
    loaded.reload();
  });
  return (
    <section class="stack">
      <div class="row">
        <h2>Programs</h2>
        <button type="button" class="button small" onClick={() => (adds.value = true)}>
          Create a token
        </button>
      </div>
      <ErrorNote error={loaded.error.value ?? revoke.error.value} onRetry={() => loaded.reload()} />
      {loaded.data.value?.tokens.length === 0 && <p class="muted">No program has a token for the admin API.</p>}
      {(loaded.data.value?.tokens.length ?? 0) > 0 && (
        <DataTable
          label="Admin tokens"
          rows={loaded.data.value?.tokens ?? []}
          keyOf={({ name, created_at }) => `${name} ${created_at}`}
          columns={[
            { title: "Name", cell: ({ name }) => name },
            { title: "Role", cell: ({ role }) => role },
            { title: "Token", cell: ({ last4 }) => <code>…{last4}</code> },
            { title: "Created", cell: ({ created_at }) => <Moment at={created_at} /> },
            {
              title: " ",
              cell: ({ name, revoked_at }) =>
                revoked_at === null ? (
                  <button type="button" class="button small quiet" aria-label={`Revoke ${name}`} onClick={() => revoke.run(name)}>
                    Revoke
                  </button>
                ) : (
                  <Badge tone="bad">revoked</Badge>
                ),
            },
          ]}
        />
      )}
      {adds.value && (
        <Dialog title="Create a token" onClose={() => (adds.value = false)}>
          <form class="stack" onSubmit={(event) => create.run(fieldsOf(event))}>
            <TextField label="Name" name="name" required autoFocus error={create.error.value} placeholder="monitoring" />
            <SelectField label="Role" name="role" options={roles} />
            <GroupField name="group" label="Group" id={null} error={create.error.value} hint="Of a group admin; others have none." />
            <ErrorNote error={create.error.value} />
            <FormActions action="Create" busy={create.busy.value} onCancel={() => (adds.value = false)} />
          </form>
        </Dialog>
      )}
      {made.value !== null && (
        <Dialog title="The new token" onClose={() => (made.value = null)}>
          <p>This is the only time it is shown.</p>
          <Secret text={made.value} />
          <footer>
            <button type="button" class="button main" onClick={() => (made.value = null)}>
              I have copied it
            </button>
          </footer>
        </Dialog>
      )}
    </section>
  );
}
