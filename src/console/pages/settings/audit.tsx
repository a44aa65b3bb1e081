import { useMemo } from "preact/hooks";
import { apiUrl } from "../../core/api.ts";
import { place, setQuery } from "../../core/location.ts";
import { makeTrail } from "../../core/pages.ts";
import { useLoaded } from "../../core/query.ts";
import { TextField } from "../../parts/field.tsx";
import { Moment } from "../../parts/moment.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Pager } from "../../parts/pager.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { SettingsFrame } from "./settings.tsx";

interface AuditAnswerEntry {
  readonly id: string;
  readonly done_at: string;
  readonly actor: { readonly kind: string; readonly name: string; readonly address: string | null };
  readonly action: string;
  readonly subject: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** Who changed what, and when. */
export function AuditPage() {
  const { query } = place.value;
  const filters = { action: query.get("action") ?? "", subject: query.get("subject") ?? "", actor: query.get("actor") ?? "" };
  const trail = useMemo(makeTrail, [query.toString()]);
  const loaded = useLoaded<{ readonly entries: readonly AuditAnswerEntry[]; readonly next: string | null }>("/audit", {
    ...filters,
    before: trail.cursor.value,
  });
  const entries = loaded.data.value?.entries ?? null;
  return (
    <SettingsFrame
      title="Audit log"
      actions={
        <a class="button" href={apiUrl("/audit/export", { ...filters, format: "csv" })} download="audit.csv">
          Download CSV
        </a>
      }
    >
      <search class="filters">
        <TextField label="Who" name="actor" value={filters.actor} onText={(actor) => setQuery({ actor })} />
        <TextField
          label="Did what"
          name="action"
          value={filters.action}
          onText={(action) => setQuery({ action })}
          placeholder="key.create"
        />
        <TextField label="To what" name="subject" value={filters.subject} onText={(subject) => setQuery({ subject })} />
      </search>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {entries !== null && entries.length === 0 && <EmptyState title="Nothing was changed" />}
      {entries !== null && entries.length > 0 && <DataTable label="Audit log" columns={columns} rows={entries} keyOf={({ id }) => id} />}
      <Pager trail={trail} next={loaded.data.value?.next ?? null} />
    </SettingsFrame>
  );
}

const columns: readonly TableColumn<AuditAnswerEntry>[] = [
  { title: "When", cell: ({ done_at }) => <Moment at={done_at} /> },
  {
    title: "Who",
    cell: ({ actor }) => (
      <>
        {actor.name} <span class="small muted">{actor.address ?? actor.kind}</span>
      </>
    ),
  },
  { title: "Did what", cell: ({ action }) => <code>{action}</code> },
  { title: "To what", cell: ({ subject }) => subject, whole: ({ subject }) => subject },
  { title: "Details", cell: ({ detail }) => <code>{detailText(detail)}</code>, whole: ({ detail }) => detailText(detail) },
];

function detailText(detail: Readonly<Record<string, unknown>>): string {
  return Object.keys(detail).length === 0 ? "" : JSON.stringify(detail);
}
