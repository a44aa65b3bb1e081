import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { HistoryEntry } from "../../core/answers.ts";
import { ask, mayManageKeys } from "../../core/api.ts";
import { place, setQuery } from "../../core/location.ts";
import { makeTrail } from "../../core/pages.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { Dialog, FormActions } from "../../parts/dialog.tsx";
import { TextArea, TextField } from "../../parts/field.tsx";
import { Moment } from "../../parts/moment.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Pager } from "../../parts/pager.tsx";
import { SettingsFrame } from "./settings.tsx";

/** What was changed, from what to what, and a way back. */
export function HistoryPage() {
  const { query } = place.value;
  const filters = { subject: query.get("subject") ?? "", actor: query.get("actor") ?? "" };
  const trail = useMemo(makeTrail, [query.toString()]);
  const loaded = useLoaded<{ readonly entries: readonly HistoryEntry[]; readonly next: string | null }>("/history", {
    ...filters,
    before: trail.cursor.value,
    limit: 30,
  });
  const undone = useSignal<HistoryEntry | null>(null);
  const entries = loaded.data.value?.entries ?? null;
  return (
    <SettingsFrame title="History">
      <search class="filters">
        <TextField label="Who" name="actor" value={filters.actor} onText={(actor) => setQuery({ actor })} />
        <TextField label="What" name="subject" value={filters.subject} onText={(subject) => setQuery({ subject })} />
      </search>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {entries !== null && entries.length === 0 && <EmptyState title="Nothing was changed" />}
      <ul class="history" role="list">
        {entries?.map((entry) => (
          <li key={entry.id} class="card">
            <Entry entry={entry} onUndo={() => (undone.value = entry)} />
          </li>
        ))}
      </ul>
      <Pager trail={trail} next={loaded.data.value?.next ?? null} />
      {undone.value !== null && <Undo entry={undone.value} onClose={() => (undone.value = null)} onUndone={() => loaded.reload()} />}
    </SettingsFrame>
  );
}

function Entry({ entry, onUndo }: { readonly entry: HistoryEntry; readonly onUndo: () => void }) {
  const { action, actor, changes, done_at, undo } = entry;
  return (
    <>
      <header>
        <h2>
          <code>{action}</code> {nameOf(entry)}
        </h2>
        {undo.possible && mayManageKeys() && (
          <button type="button" class="button small" aria-label={`Undo ${action} of ${nameOf(entry)}`} onClick={onUndo}>
            Undo
          </button>
        )}
      </header>
      <p class="small muted">
        {actor.name} ({actor.address ?? actor.kind}), <Moment at={done_at} />
      </p>
      <Changes changes={changes} />
      {!undo.possible && <p class="small muted">{undo.words}</p>}
    </>
  );
}

function nameOf({ subject, subject_name }: HistoryEntry): string {
  return subject_name ?? subject;
}

/** The values stand in text nodes, whatever they contain. */
function Changes({ changes }: { readonly changes: HistoryEntry["changes"] }) {
  if (changes.length === 0) return null;
  return (
    <dl class="diff">
      {changes.map(({ field, from, to, hidden }) => (
        <div key={field}>
          <dt>{field.replaceAll("_", " ")}</dt>
          <dd>
            {hidden ? (
              <span class="muted">changed; the values are not kept</span>
            ) : (
              <>
                {from !== null && <del>{valueText(from)}</del>}{" "}
                {to === null ? <span class="muted">removed</span> : <ins>{valueText(to)}</ins>}
              </>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Undo({ entry, onClose, onUndone }: { readonly entry: HistoryEntry; readonly onClose: () => void; readonly onUndone: () => void }) {
  const { action, changes, id, undo } = entry;
  const { error, busy, run } = useSubmission(async ({ secrets = "" }: FormFields) => {
    const given = secrets.split("\n").flatMap((line) => line.trim() || []);
    await ask(`/audit/${encodeURIComponent(id)}/undo`, { method: "POST", body: undo.needs_secrets ? { secrets: given } : {} });
    onUndone();
    onClose();
  });
  return (
    <Dialog title={`Undo ${action} of ${nameOf(entry)}?`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
        <p>{undo.words}</p>
        {undo.remarks.map((remark) => (
          <p key={remark}>{remark}</p>
        ))}
        <Changes changes={changes} />
        {undo.needs_secrets && (
          <TextArea
            label="API keys of the channel"
            name="secrets"
            rows={2}
            hint="One on each line. Keys that were replaced or removed are not kept."
            error={error.value}
          />
        )}
        <ErrorNote error={error.value} />
        <FormActions action="Undo it" busy={busy.value} onCancel={onClose} />
      </form>
    </Dialog>
  );
}
