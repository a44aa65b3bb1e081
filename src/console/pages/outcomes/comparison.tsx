import { change, count, duration, money, percent, short } from "../../core/format.ts";
import type { ComparedModel } from "../../core/answers.ts";
import { place, setQuery } from "../../core/location.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { SelectField } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable } from "../../parts/table.tsx";
import { CountedFrom } from "./outcome-parts.tsx";
import type { OutcomesAnswer } from "./outcome-rows.ts";

interface ComparisonAnswer {
  readonly counted_from: string | null;
  readonly models: readonly ComparedModel[];
}

/** Two models over the same span. At first these are the two that were called most. */
export function Comparison({ since, group }: { readonly since: string; readonly group: string }) {
  const { query } = place.value;
  const used = useLoaded<OutcomesAnswer>("/outcomes", { since, group, by: "model" });
  const known = (used.data.value?.rows ?? []).toSorted((one, other) => other.calls - one.calls).map(({ model }) => model ?? "");
  const model = query.get("model") ?? known[0] ?? "";
  const other = query.get("other") ?? known.find((name) => name !== model) ?? "";
  const loaded = useLoaded<ComparisonAnswer>("/comparison", { model, other, since, group }, { off: model === "" || other === "" });
  const [one, two] = loaded.data.value?.models ?? [];
  const options = [...new Set([...known, model, other])].filter((name) => name !== "").map((name) => [name, name] as const);
  return (
    <>
      <ErrorNote {...troubleOf(used, loaded)} />
      {used.data.value !== null && (model === "" || other === "") && (
        <EmptyState title="Fewer than two models were called in this span">
          <p>Choose a longer span.</p>
        </EmptyState>
      )}
      {model !== "" && other !== "" && (
        <div class="filters">
          <SelectField label="Model" name="model" value={model} options={options} onChoose={(value) => setQuery({ model: value })} />
          <SelectField label="Against" name="other" value={other} options={options} onChoose={(value) => setQuery({ other: value })} />
        </div>
      )}
      {one !== undefined && two !== undefined && (
        <DataTable
          label={`${one.model} against ${two.model}`}
          columns={[
            { title: "Figure", cell: ([title]: ComparedFigure) => title },
            { title: one.model, cell: ([, text]) => text(one), isNumber: true },
            { title: two.model === one.model ? `${two.model} again` : two.model, cell: ([, text]) => text(two), isNumber: true },
            { title: "Change", cell: ([, , value]) => changeOf(value(one), value(two)), isNumber: true },
          ]}
          rows={figures}
          keyOf={([title]) => title}
        />
      )}
      <p class="muted small">
        Models are compared as they were used: with other prompts, other figures. Times are read from buckets, so that they are approximate,
        and end at 2 min.
      </p>
      {loaded.data.value !== null && (
        <CountedFrom at={loaded.data.value.counted_from} earlier="Earlier calls count as calls, failures, tokens and cost alone." />
      )}
    </>
  );
}

type ComparedFigure = readonly [title: string, text: (model: ComparedModel) => string, value: (model: ComparedModel) => number | null];

function share(part: (model: ComparedModel) => number): (model: ComparedModel) => number | null {
  return (model) => (model.calls === 0 ? null : part(model) / model.calls);
}

function shareFigure(title: string, part: (model: ComparedModel) => number): ComparedFigure {
  return [title, (model) => `${percent(part(model), model.calls)} (${count(part(model))})`, share(part)];
}

const figures: readonly ComparedFigure[] = [
  ["Calls", ({ calls }) => count(calls), ({ calls }) => calls],
  shareFigure("Failed", ({ failed }) => failed),
  shareFigure("Truncated", ({ truncated }) => truncated),
  shareFigure("Refused", ({ refused }) => refused),
  shareFigure("Rescued", ({ rescued }) => rescued),
  ["First content, p50", ({ first_content: first }) => duration(first?.p50_ms), ({ first_content: first }) => first?.p50_ms ?? null],
  ["First content, p95", ({ first_content: first }) => duration(first?.p95_ms), ({ first_content: first }) => first?.p95_ms ?? null],
  ["Duration, p50", ({ took }) => duration(took?.p50_ms), ({ took }) => took?.p50_ms ?? null],
  ["Duration, p95", ({ took }) => duration(took?.p95_ms), ({ took }) => took?.p95_ms ?? null],
  ["Tokens out per call", (model) => short(outPerCall(model)), (model) => outPerCall(model)],
  ["Cost per call", (model) => money(model.cost_per_call_usd), (model) => model.cost_per_call_usd],
  ["Cost per 1,000 tokens out", (model) => money(model.cost_per_1k_output_usd), (model) => model.cost_per_1k_output_usd],
];

function outPerCall({ calls, completion_tokens: out }: ComparedModel): number | null {
  return calls === 0 ? null : out / calls;
}

function changeOf(one: number | null, two: number | null): string {
  return one === null || two === null ? "–" : (change(two, one)?.text ?? "–");
}
