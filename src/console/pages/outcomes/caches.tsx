import { count, money, percent, short } from "../../core/format.ts";
import { place, setQuery } from "../../core/location.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { Figure } from "../../parts/fact.tsx";
import { Choice } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { groupName } from "../usage/usage-rows.ts";
import { CountedFrom } from "./outcome-parts.tsx";
import type { OutcomeAnswerRow, OutcomesAnswer } from "./outcome-rows.ts";

/** How much of the input came from caches of the upstreams, by who asked. An application is known by its key. */
export function Caches({ since, group }: { readonly since: string; readonly group: string }) {
  const asked = place.value.query.get("by");
  const by = options.find(([name]) => name === asked)?.[0] ?? "key";
  const all = useLoaded<OutcomesAnswer>("/outcomes", { since, group });
  const parts = useLoaded<OutcomesAnswer>("/outcomes", { since, group, by });
  const total = all.data.value?.rows[0];
  const rows = parts.data.value?.rows.filter(({ prompt_tokens }) => prompt_tokens > 0) ?? null;
  return (
    <>
      <ErrorNote {...troubleOf(all, parts)} />
      {total !== undefined && (
        <dl class="cards">
          <Figure
            name="From caches"
            value={percent(total.cached_tokens, total.prompt_tokens)}
            note={`${short(total.cached_tokens)} of ${short(total.prompt_tokens)} input tokens`}
          />
          <Figure name="Saved" value={money(total.cache_saved_usd)} note="by the prices of input, less what filling caches cost" />
        </dl>
      )}
      <Choice label="By" options={options} value={by} onChoose={(value) => setQuery({ by: value })} />
      {rows !== null && rows.length === 0 && (
        <EmptyState title="No input tokens in this span">
          <p>Choose a longer span, or another group.</p>
        </EmptyState>
      )}
      {rows !== null && rows.length > 0 && (
        <DataTable
          label="Cache hits"
          columns={columnsFor(by)}
          rows={rows.toSorted((one, other) => other.prompt_tokens - one.prompt_tokens).slice(0, rowsMax)}
          keyOf={(row) => groupName(row, by)}
        />
      )}
      <p class="muted small">
        An application is known by its key: give each its own. Only input that providers report as cached counts. Money is counted where the
        price is known.
      </p>
      {all.data.value !== null && (
        <CountedFrom at={all.data.value.counted_from} earlier="Of earlier calls the tokens are known, but not what was saved." />
      )}
    </>
  );
}

const options = [
  ["key", "Key"],
  ["group", "Group"],
  ["model", "Model"],
] as const;

/** A table with more rows is for a program: the admin API has them all. */
const rowsMax = 500;

function columnsFor(by: (typeof options)[number][0]): readonly TableColumn<OutcomeAnswerRow>[] {
  const title = options.find(([name]) => name === by)?.[1] ?? by;
  return [
    { title, cell: (row) => groupName(row, by), whole: (row) => groupName(row, by) },
    { title: "Calls", cell: ({ calls }) => count(calls), isNumber: true },
    { title: "Tokens in", cell: ({ prompt_tokens }) => short(prompt_tokens), isNumber: true },
    { title: "Cached", cell: ({ cached_tokens }) => short(cached_tokens), isNumber: true },
    { title: "Hit ratio", cell: ({ cached_tokens, prompt_tokens }) => percent(cached_tokens, prompt_tokens), isNumber: true },
    { title: "Saved", cell: ({ cache_saved_usd }) => money(cache_saved_usd), isNumber: true },
    { title: "Cost", cell: ({ cost_usd }) => money(cost_usd), isNumber: true },
  ];
}
