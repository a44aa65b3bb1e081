import { apiUrl } from "../../core/api.ts";
import { change, count, duration, money, percent, short } from "../../core/format.ts";
import { place, setQuery } from "../../core/location.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { Figure } from "../../parts/fact.tsx";
import { Choice, SelectField, TextField } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { groupName, spanBefore, spanDays, summed, type UsageAnswerRow } from "./usage-rows.ts";

interface UsageAnswer {
  readonly rows: readonly UsageAnswerRow[];
}

/** What was used and what it cost, grouped, against the span before. */
export function UsagePage() {
  const { query } = place.value;
  const by = query.get("by") ?? "model";
  const since = query.get("since") ?? "30d";
  const filters = {
    key: query.get("key") ?? "",
    group: query.get("group") ?? "",
    model: query.get("model") ?? "",
    channel: query.get("channel") ?? "",
  };
  const now = useLoaded<UsageAnswer>("/usage", { by, since, ...filters });
  const earlier = spanBefore(since);
  const before = useLoaded<UsageAnswer>("/usage", { by: "", ...earlier, ...filters });
  const rows = now.data.value?.rows ?? null;
  const csv = apiUrl("/usage", { by, since, ...filters, format: "csv" });
  return (
    <Page
      title="Usage"
      about="Sums of whole hours, from receipts."
      actions={
        <a class="button" href={csv} download="usage.csv">
          Download CSV
        </a>
      }
    >
      <Choice label="Group by" options={groups} value={by} onChoose={(value) => setQuery({ by: value })} />
      <div class="filters">
        <SelectField label="Span" name="since" value={since} options={spans} onChoose={(value) => setQuery({ since: value })} />
        <TextField label="Key" name="key" value={filters.key} onText={(key) => setQuery({ key })} placeholder="Name or id" />
        <TextField
          label="Keys of a group"
          name="group"
          value={filters.group}
          onText={(group) => setQuery({ group })}
          placeholder="Name or id"
        />
        <TextField label="Model" name="model" value={filters.model} onText={(model) => setQuery({ model })} />
        <TextField label="Channel" name="channel" value={filters.channel} onText={(channel) => setQuery({ channel })} />
      </div>
      <ErrorNote {...troubleOf(now, before)} />
      {rows !== null && by !== "group" && <Totals rows={rows} before={before.data.value?.rows ?? []} days={spanDays(since)} />}
      {rows !== null && rows.length === 0 && (
        <EmptyState title="Nothing was used in this span">
          <p>Choose a longer span, or fewer filters.</p>
        </EmptyState>
      )}
      {rows !== null && rows.length > 0 && (
        <DataTable
          label="Usage"
          columns={columnsFor(by, summed(rows).cost_usd ?? 0)}
          rows={sorted(rows, by)}
          keyOf={(row) => groupName(row, by)}
        />
      )}
    </Page>
  );
}

const groups = [
  ["model", "Model"],
  ["key", "Key"],
  ["group", "Group"],
  ["channel", "Channel"],
  ["operation", "Operation"],
  ["day", "Day"],
] as const;

const spans = [
  ["24h", "Last day"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
  ["90d", "Last 90 days"],
] as const;

/** Days in their order, everything else by what it costs. */
function sorted(rows: readonly UsageAnswerRow[], by: string): readonly UsageAnswerRow[] {
  if (by === "day") return rows.toReversed();
  return rows.toSorted((one, other) => (other.cost_usd ?? 0) - (one.cost_usd ?? 0) || other.calls - one.calls);
}

function columnsFor(by: string, wholeCost: number): readonly TableColumn<UsageAnswerRow>[] {
  return [
    { title: groups.find(([name]) => name === by)?.[1] ?? by, cell: (row) => groupName(row, by), whole: (row) => groupName(row, by) },
    { title: "Calls", cell: ({ calls }) => count(calls), isNumber: true },
    { title: "Failed", cell: ({ calls, failed }) => (failed === 0 ? "0" : `${count(failed)} (${percent(failed, calls)})`), isNumber: true },
    { title: "Tokens in", cell: ({ prompt_tokens }) => short(prompt_tokens), isNumber: true },
    { title: "From cache", cell: ({ cached_tokens, prompt_tokens }) => percent(cached_tokens, prompt_tokens), isNumber: true },
    { title: "Tokens out", cell: ({ completion_tokens }) => short(completion_tokens), isNumber: true },
    { title: "Audio", cell: ({ audio_seconds }) => (audio_seconds === 0 ? "–" : duration(audio_seconds * 1000)), isNumber: true },
    { title: "Characters", cell: ({ characters }) => (characters === 0 ? "–" : short(characters)), isNumber: true },
    {
      title: "Cost",
      cell: ({ cost_usd, unpriced }) => `${money(cost_usd)}${unpriced > 0 && cost_usd !== null ? " +" : ""}`,
      isNumber: true,
    },
    { title: "Share", cell: ({ cost_usd }) => percent(cost_usd ?? 0, wholeCost), isNumber: true },
  ];
}

function Totals({
  rows,
  before,
  days,
}: {
  readonly rows: readonly UsageAnswerRow[];
  readonly before: readonly UsageAnswerRow[];
  readonly days: number;
}) {
  const now = summed(rows);
  const then = summed(before);
  const compared = (value: number, other: number): string => {
    const found = change(value, other);
    return found === null ? "" : `${found.text} against the ${days === 1 ? "day" : `${days} days`} before`;
  };
  return (
    <dl class="cards">
      <Figure name="Cost" value={money(now.cost_usd)} note={compared(now.cost_usd ?? 0, then.cost_usd ?? 0)} />
      <Figure name="Calls" value={short(now.calls)} note={compared(now.calls, then.calls)} />
      <Figure name="Failed" value={percent(now.failed, now.calls)} note={`${count(now.failed)} calls`} />
      <Figure
        name="Tokens"
        value={short(now.prompt_tokens + now.completion_tokens)}
        note={`${percent(now.cached_tokens, now.prompt_tokens)} of the input from caches`}
      />
      {now.unpriced > 0 && <Figure name="Without a price" value={count(now.unpriced)} note="calls, which the cost leaves out" />}
    </dl>
  );
}
