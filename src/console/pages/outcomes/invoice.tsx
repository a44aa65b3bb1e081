import { useSignal } from "@preact/signals";
import type { InvoiceRow } from "../../core/answers.ts";
import { count, duration, money, short } from "../../core/format.ts";
import { place, setQuery } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { SelectField, TextField } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { CountedFrom } from "./outcome-parts.tsx";
import { invoiceChannels, invoiceDifference, lastMonths, typedAmount, type InvoiceChannel } from "./outcome-rows.ts";

interface InvoiceAnswer {
  readonly counted_from: string | null;
  readonly rows: readonly InvoiceRow[];
}

/** What each channel used in a calendar month, beside the amount of its provider's invoice. */
export function Invoice() {
  const months = lastMonths(Date.now(), 13);
  const month = place.value.query.get("month") ?? months[0]!;
  const loaded = useLoaded<InvoiceAnswer>("/invoice", { month });
  const answer = loaded.data.value;
  const options = [...new Set([...months, month])].map((name) => [name, name] as const);
  return (
    <>
      <div class="filters">
        <SelectField
          label="Month"
          name="month"
          value={month}
          options={options}
          hint="In UTC, as most providers bill"
          onChoose={(value) => setQuery({ month: value })}
        />
      </div>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {answer !== null && answer.rows.length === 0 && (
        <EmptyState title="Nothing was used in this month">
          <p>Choose another month.</p>
        </EmptyState>
      )}
      {answer !== null && invoiceChannels(answer.rows).map((each) => <ChannelInvoice key={`${month} ${each.channel ?? ""}`} of={each} />)}
      <p class="muted small">
        Every attempt counts where it was made, answered or not, at the price of its time. Differences come from prices that are not known
        or have changed, free quotas, discounts, taxes, and attempts that a provider charged without reporting them.
      </p>
      {answer !== null && <CountedFrom at={answer.counted_from} earlier="What was used before is not here: see the usage by channel." />}
    </>
  );
}

function ChannelInvoice({ of }: { readonly of: InvoiceChannel }) {
  const typed = useSignal("");
  const amount = typedAmount(typed.value);
  const name = of.channel ?? "Not known: the gateway died meanwhile";
  return (
    <section class="card" aria-label={name}>
      <header>
        <h2>{name}</h2>
        <strong>{money(of.cost)}</strong>
      </header>
      <div class="filters">
        <TextField
          label={`The invoice of ${name}`}
          name="invoice"
          value={typed.value}
          onText={(text) => (typed.value = text)}
          placeholder="In dollars"
          hint={
            typed.value.trim() === ""
              ? "Type its amount to see the difference. It is not stored."
              : amount === null
                ? "This is no amount in dollars, such as 1,234.50."
                : of.cost === null
                  ? "No price is known here, so that there is nothing to compare with."
                  : invoiceDifference(amount, of.cost)
          }
        />
      </div>
      {(of.unpriced > 0 || of.uncertain > 0) && (
        <p class="small">
          {of.unpriced > 0 && `${count(of.unpriced)} attempts have no price, and are missing from the amount. `}
          {of.uncertain > 0 && `${count(of.uncertain)} attempts may have been charged without being reported.`}
        </p>
      )}
      <DataTable label={`Models of ${name}`} columns={columns} rows={of.models} keyOf={({ model }) => model ?? ""} />
    </section>
  );
}

const columns: readonly TableColumn<InvoiceRow>[] = [
  { title: "Model", cell: ({ model }) => model ?? "–", whole: ({ model }) => model ?? "–" },
  { title: "Requests", cell: ({ attempts }) => count(attempts), isNumber: true },
  { title: "Answered", cell: ({ answered }) => count(answered), isNumber: true },
  { title: "Tokens in", cell: ({ prompt_tokens }) => count(prompt_tokens), isNumber: true },
  { title: "Cached", cell: ({ cached_tokens }) => count(cached_tokens), isNumber: true },
  { title: "Tokens out", cell: ({ completion_tokens }) => count(completion_tokens), isNumber: true },
  { title: "Audio", cell: ({ audio_seconds }) => (audio_seconds === 0 ? "–" : duration(audio_seconds * 1000)), isNumber: true },
  { title: "Characters", cell: ({ characters }) => (characters === 0 ? "–" : short(characters)), isNumber: true },
  { title: "Cost", cell: ({ cost_usd, unpriced }) => `${money(cost_usd)}${unpriced > 0 && cost_usd !== null ? " +" : ""}`, isNumber: true },
];
