import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { z } from "zod";
import type { backupsAnswer } from "../../../admin/routes/backups-routes.ts";
import { apiUrl, ask, mayChange } from "../../core/api.ts";
import { bytes } from "../../core/format.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { useSubmission } from "../../core/submit.ts";
import { Snippet } from "../../parts/copy.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Moment } from "../../parts/moment.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable } from "../../parts/table.tsx";
import { SettingsFrame } from "./settings.tsx";

type BackupsAnswer = z.output<typeof backupsAnswer>;

/** Makes a backup, shows those that there are, and how one is restored. */
export function BackupPage() {
  const isRunning = useSignal(false);
  const loaded = useLoaded<BackupsAnswer>("/backups", {}, { everyMs: isRunning.value ? 500 : 10_000, off: !mayChange() });
  const answer = loaded.data.value;
  useEffect(() => {
    isRunning.value = answer?.running != null;
  }, [answer]);
  const make = useSubmission(async () => {
    loaded.data.value = await ask<BackupsAnswer>("/backups", { method: "POST" });
  });
  if (!mayChange()) {
    return (
      <SettingsFrame title="Backup">
        <EmptyState title="Backups need the role admin" />
      </SettingsFrame>
    );
  }
  return (
    <SettingsFrame
      title="Backup"
      actions={
        answer !== null &&
        answer.impossible === null && (
          <button
            type="button"
            class="button main"
            disabled={make.busy.value || answer.running !== null}
            onClick={() => make.run(undefined)}
          >
            Make a backup
          </button>
        )
      }
    >
      <ErrorNote {...troubleOf(loaded)} />
      <ErrorNote error={make.error.value} />
      {answer !== null && answer.instead !== null && <Instead {...answer.instead} />}
      {answer !== null && answer.impossible !== null && answer.instead === null && (
        <EmptyState title="This gateway makes no backups">{answer.impossible}</EmptyState>
      )}
      {answer !== null && answer.impossible === null && <Kept answer={answer} onRemoved={() => loaded.reload()} />}
    </SettingsFrame>
  );
}

/** How the database backs itself up. */
function Instead({ backup, restore, notes }: NonNullable<BackupsAnswer["instead"]>) {
  return (
    <>
      <p>The store is on PostgreSQL, which backs itself up while gateways use it.</p>
      <section class="card stack">
        <h2>Back it up</h2>
        <Snippet label="Shell, where PostgreSQL can be reached" text={backup} />
      </section>
      <section class="card stack">
        <h2>Restore it</h2>
        <p>Stop all gateways of this store first. Everything in the database is replaced, or nothing if something goes wrong.</p>
        <Snippet label="Shell, where PostgreSQL can be reached" text={restore} />
      </section>
      <ul>
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </>
  );
}

function Kept({ answer, onRemoved }: { readonly answer: BackupsAnswer; readonly onRemoved: () => void }) {
  const { folder, master_key, running, failure, backups } = answer;
  const command = useLoaded<{ readonly command: string }>("/start").data.value?.command ?? "sluice";
  const removed = useSignal<string | null>(null);
  const remove = useSubmission(async (name: string) => {
    await ask(`/backups/${encodeURIComponent(name)}`, { method: "DELETE" });
    removed.value = null;
    onRemoved();
  });
  return (
    <>
      <p aria-live="polite">{running === null ? "" : progressText(running)}</p>
      {failure !== null && (
        <p class="bad" role="alert">
          The last backup failed. {failure}
        </p>
      )}
      {backups.length === 0 && running === null && (
        <EmptyState title="No backup yet">
          <p>A backup is one encrypted file with everything that is in the store. The gateway goes on serving meanwhile.</p>
        </EmptyState>
      )}
      {backups.length > 0 && (
        <DataTable
          label="Backups"
          rows={backups}
          keyOf={({ name }) => name}
          columns={[
            { title: "Name", cell: ({ name }) => <code>{name}</code>, whole: ({ name }) => name },
            { title: "Made", cell: ({ made_at }) => <Moment at={made_at} /> },
            { title: "Size", cell: (one) => bytes(one.bytes), isNumber: true },
            {
              title: "Actions",
              cell: ({ name }) => (
                <span class="row">
                  <a
                    class="button small"
                    href={apiUrl(`/backups/${encodeURIComponent(name)}`)}
                    download={name}
                    aria-label={`Download ${name}`}
                  >
                    Download
                  </a>
                  <button type="button" class="button small quiet" aria-label={`Delete ${name}`} onClick={() => (removed.value = name)}>
                    Delete
                  </button>
                </span>
              ),
            },
          ]}
        />
      )}
      <p>
        Backups are kept in <code>{folder}</code> on the machine of the gateway, and encrypted with its master key, which they do not
        contain. Without it they are useless: keep a copy of <code>{master_key}</code> in another place, and the backups on another disk.
      </p>
      <section class="card stack">
        <h2>Restore one</h2>
        <p>
          The check changes nothing. To restore, stop all gateways of this store first; the present store is kept beside the restored one.
        </p>
        <Snippet label="Shell, on the machine of the gateway" text={restoreCommands(command, folder, backups[0]?.name ?? "NAME.backup")} />
      </section>
      {removed.value !== null && (
        <Confirm
          title={`Delete ${removed.value}?`}
          action="Delete it"
          onClose={() => (removed.value = null)}
          onConfirm={() => remove.run(removed.value ?? "")}
        >
          <p>It cannot be brought back.</p>
          <ErrorNote error={remove.error.value} />
        </Confirm>
      )}
    </>
  );
}

function progressText({ doing, done_bytes, total_bytes }: NonNullable<BackupsAnswer["running"]>): string {
  if (doing === "checking") return "Checking the copy…";
  return `${doing === "copying" ? "Copying" : "Encrypting"}: ${bytes(done_bytes)} of about ${bytes(total_bytes)}…`;
}

function restoreCommands(command: string, folder: string, name: string): string {
  const file = /^[\w./-]+$/.test(folder) ? `${folder}/${name}` : `'${folder.replaceAll("'", String.raw`'\''`)}/${name}'`;
  return `${command} restore ${file} --check\n${command} restore ${file}`;
}
