import { useMemo } from "preact/hooks";
import type { RequestSummary } from "../../core/answers.ts";
import { amount, duration, money } from "../../core/format.ts";
import { go, pathTo, place, setQuery } from "../../core/location.ts";
import { makeTrail } from "../../core/pages.ts";
import { useLoaded } from "../../core/query.ts";
import { stateTone } from "../../core/tones.ts";
import { SelectField, TextField } from "../../parts/field.tsx";
import { Moment } from "../../parts/moment.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { askedOf } from "./request-filters.ts";
import { Pager } from "../../parts/pager.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";

/** The calls that were made, newest first. They are found by keys, so that the last page opens as fast as the first. */
export function RequestsPage() {
  const { query } = place.value;
  const filters = Object.fromEntries(names.map((name) => [name, query.get(name) ?? ""]));
  const trail = useMemo(makeTrail, [query.toString()]);
  const list = useLoaded<RequestList>("/receipts", { ...askedOf(filters), before: trail.cursor.value, limit: pageRows });
  const rows = list.data.value?.receipts ?? null;
  const next = list.data.value?.next ?? null;
  return (
    <Page title="Requests" about="What was asked, who answered, and what it cost. Prompts and answers are never stored.">
      <search>
        <form class="filters" onSubmit={open}>
          <TextField label="Find by id" name="id" type="search" placeholder="req_…" />
          <TextField label="Key" name="key" value={filters["key"]} onText={(key) => setQuery({ key })} placeholder="Name or id" />
          <TextField label="Group" name="group" value={filters["group"]} onText={(group) => setQuery({ group })} placeholder="Name or id" />
          <TextField label="Model" name="model" value={filters["model"]} onText={(model) => setQuery({ model })} />
          <TextField label="Channel" name="channel" value={filters["channel"]} onText={(channel) => setQuery({ channel })} />
          <SelectField
            label="State"
            name="state"
            value={filters["state"] ?? ""}
            options={states}
            onChoose={(state) => setQuery({ state })}
          />
          <SelectField
            label="Outcome"
            name="outcome"
            value={filters["outcome"] ?? ""}
            options={outcomes}
            onChoose={(outcome) => setQuery({ outcome })}
          />
          <TextField
            label="Status"
            name="status"
            value={filters["status"]}
            onText={(status) => setQuery({ status })}
            placeholder="429 or 5xx"
            error={list.error.value}
          />
          {figureFields.map(([name, label]) => (
            <TextField
              key={name}
              label={label}
              name={name}
              type="number"
              min={0}
              step="any"
              value={filters[name]}
              onText={(text) => setQuery({ [name]: text })}
            />
          ))}
          <SelectField
            label="Since"
            name="since"
            value={filters["since"] ?? ""}
            options={spans}
            onChoose={(since) => setQuery({ since })}
          />
        </form>
      </search>
      <ErrorNote error={list.error.value} onRetry={() => list.reload()} />
      {rows === null ? null : rows.length === 0 && next === null ? (
        <NoRequests isFiltered={names.some((name) => filters[name] !== "")} />
      ) : (
        <DataTable label="Requests" columns={columns} rows={rows} keyOf={({ id }) => id} />
      )}
      {rows !== null && rows.length < pageRows && next !== null && (
        <p class="muted">Few requests match. The search goes on with the older ones.</p>
      )}
      <Pager trail={trail} next={next} />
    </Page>
  );
}

interface RequestList {
  readonly receipts: readonly RequestSummary[];
  readonly next: string | null;
}

const names = [
  "key",
  "group",
  "model",
  "channel",
  "state",
  "outcome",
  "status",
  "min_cost_usd",
  "max_cost_usd",
  "min_seconds",
  "since",
] as const;
const pageRows = 50;

const figureFields = [
  ["min_cost_usd", "Cost from ($)"],
  ["max_cost_usd", "Cost to ($)"],
  ["min_seconds", "Took at least (s)"],
] as const;

const states = [
  ["", "Any"],
  ["complete", "Complete"],
  ["failed", "Failed"],
  ["interrupted", "Broken off"],
  ["abandoned", "Client left"],
  ["unknown", "Unknown"],
] as const;

const outcomes = [
  ["", "Any"],
  ["truncated", "Truncated"],
  ["refused", "Refused"],
  ["rescued", "Rescued"],
  ["rescue_failed", "Not rescued"],
  ["failed_over", "Failed over"],
  ["retried", "Retried"],
  ["hedged", "Hedged"],
] as const;

const spans = [
  ["", "Any time"],
  ["1h", "Last hour"],
  ["24h", "Last day"],
  ["7d", "Last week"],
  ["30d", "Last 30 days"],
  ["90d", "Last 90 days"],
] as const;

function open(event: SubmitEvent): void {
  event.preventDefault();
  if (!(event.currentTarget instanceof HTMLFormElement)) return;
  const id = new FormData(event.currentTarget).get("id");
  if (typeof id === "string" && id.trim() !== "") go(pathTo("request", { id: id.trim() }));
}

export const columns: readonly TableColumn<RequestSummary>[] = [
  {
    title: "Time",
    cell: ({ id, started_at }) => (
      <a href={pathTo("request", { id })}>
        <Moment at={started_at} />
      </a>
    ),
  },
  {
    title: "State",
    cell: ({ state, status, outcomes: special }) => (
      <>
        <Badge tone={stateTone(state)}>{state === "complete" ? "ok" : `${state} ${status}`}</Badge>{" "}
        {special
          .filter((word) => word === "truncated" || word === "refused" || word === "rescued")
          .map((word) => (
            <Badge key={word} tone="warn">
              {word}
            </Badge>
          ))}
      </>
    ),
  },
  { title: "Key", cell: ({ key, key_name }) => key_name ?? key, whole: ({ key, key_name }) => `${key_name ?? "removed key"} (${key})` },
  { title: "Model", cell: ({ model }) => model, whole: ({ model }) => model },
  {
    title: "Channel",
    cell: ({ channel, attempts }) => (
      <>
        {channel ?? <span class="muted">nobody</span>} {attempts > 1 && <Badge tone="warn">{attempts} attempts</Badge>}
      </>
    ),
    whole: ({ channel, upstream_model }) => `${channel ?? "nobody"} ${upstream_model ?? ""}`,
  },
  { title: "In → out", cell: amount, isNumber: true },
  { title: "First", cell: ({ first_content_ms }) => duration(first_content_ms), isNumber: true },
  { title: "Took", cell: ({ took_ms }) => duration(took_ms), isNumber: true },
  { title: "Cost", cell: ({ cost_usd }) => money(cost_usd), isNumber: true },
];

function NoRequests({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <EmptyState title="No request matches">
        <p>
          Names are compared as a whole. <a href={pathTo("requests")}>Show all requests.</a>
        </p>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No requests yet">
      <p>They appear here a moment after they have ended.</p>
      <a class="button main" href={pathTo("setup")}>
        Set up a client
      </a>
    </EmptyState>
  );
}
