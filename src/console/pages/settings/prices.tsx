import { useSignal } from "@preact/signals";
import { ask, mayChange } from "../../core/api.ts";
import { moment } from "../../core/format.ts";
import { place, setQuery } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { Dialog, FormActions } from "../../parts/dialog.tsx";
import { SearchField, SelectField, TextField } from "../../parts/field.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable } from "../../parts/table.tsx";
import { SettingsFrame } from "./settings.tsx";

interface PriceAnswer {
  readonly id: string | null;
  readonly source: "shipped" | "store" | "file";
  readonly provider: string | null;
  readonly model: string;
  readonly from_at: string | null;
  readonly rates: Readonly<Record<string, number>>;
  readonly in_force: boolean;
  readonly overridden_by: string | null;
}

/** What models cost. The file overrides the store, and the store overrides the shipped prices. */
export function PricesPage() {
  const { query } = place.value;
  const search = query.get("search") ?? "";
  const source = query.get("source") ?? "";
  const loaded = useLoaded<{ readonly prices: readonly PriceAnswer[] }>("/prices", { search, source });
  const sets = useSignal(false);
  const prices = loaded.data.value?.prices ?? null;
  const remove = useSubmission(async (id: string) => {
    await ask(`/prices/${encodeURIComponent(id)}`, { method: "DELETE" });
    loaded.reload();
  });
  return (
    <SettingsFrame
      title="Prices"
      actions={
        mayChange() && (
          <button type="button" class="button main" onClick={() => (sets.value = true)}>
            Set a price
          </button>
        )
      }
    >
      <search class="filters">
        <SearchField value={search} placeholder="Model or provider" />
        <SelectField label="From" name="source" value={source} options={sources} onChoose={(value) => setQuery({ source: value })} />
      </search>
      <ErrorNote error={loaded.error.value ?? remove.error.value} onRetry={() => loaded.reload()} />
      {prices !== null && prices.length === 0 && (
        <EmptyState title="No price matches">
          <p>A model without a price is still served; its calls have an unknown cost, unless its key has a budget.</p>
        </EmptyState>
      )}
      {prices !== null && prices.length > 0 && (
        <>
          <DataTable
            label="Prices"
            rows={prices.slice(0, shownMax)}
            keyOf={({ source, provider, model, from_at }) => [source, provider, model, from_at].join(" ")}
            columns={[
              { title: "Model", cell: ({ model }) => model, whole: ({ model }) => model },
              { title: "Provider", cell: ({ provider }) => provider ?? <span class="muted">any</span> },
              { title: "Dollars, by unit", cell: ({ rates }) => ratesText(rates), whole: ({ rates }) => ratesText(rates) },
              { title: "From", cell: ({ from_at }) => (from_at === null ? <span class="muted">always</span> : moment(from_at)) },
              { title: "Source", cell: ({ source }) => source },
              {
                title: "Applies",
                cell: ({ in_force, overridden_by }) =>
                  in_force ? (
                    <Badge tone="good">now</Badge>
                  ) : (
                    <span class="small muted">{overridden_by === null ? "another one does" : `${overridden_by} does`}</span>
                  ),
              },
              {
                title: " ",
                cell: ({ id, model }) =>
                  id !== null &&
                  mayChange() && (
                    <button
                      type="button"
                      class="button small quiet"
                      aria-label={`Remove the price of ${model}`}
                      onClick={() => remove.run(id)}
                    >
                      Remove
                    </button>
                  ),
              },
            ]}
          />
          {prices.length > shownMax && <p class="muted">{prices.length - shownMax} more: search to see them.</p>}
        </>
      )}
      {sets.value && <SetPrice onClose={() => (sets.value = false)} onSet={() => loaded.reload()} />}
    </SettingsFrame>
  );
}

const shownMax = 300;
const sources = [
  ["", "All sources"],
  ["shipped", "Shipped"],
  ["store", "Set here"],
  ["file", "The file"],
] as const;

function ratesText(rates: PriceAnswer["rates"]): string {
  return Object.entries(rates)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ");
}

function SetPrice({ onClose, onSet }: { readonly onClose: () => void; readonly onSet: () => void }) {
  const { error, busy, run } = useSubmission(async ({ model, provider = "", from = "", ...rates }: FormFields) => {
    const given = Object.entries(rates).filter(([, value]) => value !== "");
    await ask("/prices", {
      method: "PUT",
      body: { model, provider: provider === "" ? null : provider, ...(from === "" ? {} : { from }), rates: Object.fromEntries(given) },
    });
    onSet();
    onClose();
  });
  return (
    <Dialog title="Set a price" onClose={onClose}>
      <form class="stack" onSubmit={(event) => run(fieldsOf(event))}>
        <div class="columns">
          <TextField label="Model" name="model" required autoFocus hint="The upstream's name, or a pattern with *." error={error.value} />
          <TextField label="Provider" name="provider" hint="Empty: any." error={error.value} />
        </div>
        <div class="columns">
          <TextField label="Input, per million tokens" name="input" type="number" min={0} step="any" error={error.value} />
          <TextField label="Output, per million tokens" name="output" type="number" min={0} step="any" error={error.value} />
        </div>
        <TextField label="From" name="from" type="date" hint="Empty: today." error={error.value} />
        <ErrorNote error={error.value} />
        <FormActions action="Set it" busy={busy.value} onCancel={onClose} />
      </form>
    </Dialog>
  );
}
