import { roleNow } from "../../core/api.ts";
import { count, money, percent, short } from "../../core/format.ts";
import { pathTo, place, setQuery } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { Figure } from "../../parts/fact.tsx";
import { Choice, SelectField, TextField } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Caches } from "./caches.tsx";
import { Comparison } from "./comparison.tsx";
import { Invoice } from "./invoice.tsx";
import { CountedFrom } from "./outcome-parts.tsx";
import { extraCost, plainlyFailed, savedCalls, type OutcomeAnswerRow, type OutcomesAnswer } from "./outcome-rows.ts";

/** How calls ended: what failover saved, what caches saved, whether a new model is worse, whether an invoice is right. */
export function OutcomesPage() {
  const { query } = place.value;
  const isGroupAdmin = roleNow() === "group_admin";
  const shown = views.filter(([name]) => name !== "invoice" || !isGroupAdmin);
  const view = shown.find(([name]) => name === query.get("view"))?.[0] ?? "answers";
  const since = query.get("since") ?? "7d";
  return (
    <Page title="Outcomes" about="Sums of whole hours, from receipts.">
      <Choice label="View" options={shown} value={view} onChoose={(value) => setQuery({ view: value })} />
      {view !== "invoice" && (
        <div class="filters">
          <SelectField label="Span" name="since" value={since} options={spans} onChoose={(value) => setQuery({ since: value })} />
          <TextField
            label="Group"
            name="group"
            value={query.get("group") ?? ""}
            onText={(group) => setQuery({ group })}
            placeholder="Name or id"
          />
        </div>
      )}
      {view === "answers" && <Answers since={since} group={query.get("group") ?? ""} />}
      {view === "caches" && <Caches since={since} group={query.get("group") ?? ""} />}
      {view === "models" && <Comparison since={since} group={query.get("group") ?? ""} />}
      {view === "invoice" && <Invoice />}
    </Page>
  );
}

const views = [
  ["answers", "Answers"],
  ["caches", "Caches"],
  ["models", "Compare models"],
  ["invoice", "Invoice"],
] as const;

const spans = [
  ["1h", "Last hour"],
  ["24h", "Last day"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
  ["90d", "Last 90 days"],
] as const;

function Answers({ since, group }: { readonly since: string; readonly group: string }) {
  const loaded = useLoaded<OutcomesAnswer>("/outcomes", { since, group });
  const answer = loaded.data.value;
  const row = answer?.rows[0];
  return (
    <>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {row !== undefined && row.calls === 0 && (
        <EmptyState title="No calls in this span">
          <p>Choose a longer span, or another group.</p>
        </EmptyState>
      )}
      {row !== undefined && row.calls > 0 && <Saved row={row} />}
      {row !== undefined && row.calls > 0 && <Ended row={row} since={since} group={group} />}
      {answer !== null && <CountedFrom at={answer.counted_from} earlier="Earlier calls are known to be complete or failed, and no more." />}
    </>
  );
}

function Saved({ row }: { readonly row: OutcomeAnswerRow }) {
  const saved = savedCalls(row);
  return (
    <section aria-label="What failover, hedging and rescue save and cost">
      <dl class="cards">
        <Figure
          name="Answered after a failure"
          value={count(saved)}
          note={`${percent(saved, row.calls)} of all calls, which would have failed`}
        />
        <Figure name="Failed over" value={count(row.failed_over)} note={`by another channel; ${count(row.retried)} more by the same one`} />
        <Figure
          name="Rescued"
          value={count(row.rescued)}
          note={`broken answers that were continued; ${count(row.rescue_failed)} were not`}
        />
        <Figure name="Hedges" value={count(row.hedges)} note={`${count(row.hedges_won)} of them were quicker`} />
        <Figure
          name="Extra attempts"
          value={count(row.extra_attempts)}
          note={`${short(row.extra_tokens)} tokens, as far as they were reported`}
        />
        <Figure
          name="What that cost"
          value={money(extraCost(row))}
          note={`${percent(extraCost(row), row.cost_usd ?? 0)} of the cost: failover ${money(row.failover_usd)}, hedging ${money(row.hedge_usd)}, rescue ${money(row.rescue_usd)}`}
        />
      </dl>
    </section>
  );
}

/** Each kind with the list of its calls. */
function Ended({ row, since, group }: { readonly row: OutcomeAnswerRow; readonly since: string; readonly group: string }) {
  const kinds: readonly (readonly [name: string, about: string, calls: number, filter: Readonly<Record<string, string>>])[] = [
    ["Truncated", "as long as the client, the model or the gateway allows", row.truncated, { outcome: "truncated" }],
    ["Refused", "by the model or its provider", row.refused, { outcome: "refused" }],
    ["Rescued", "broke off, and another attempt went on", row.rescued, { outcome: "rescued" }],
    ["Failed over", "another channel answered", row.failed_over, { outcome: "failed_over" }],
    ["Retried", "the same channel answered later", row.retried, { outcome: "retried" }],
    ["Broken off", "and not continued", row.interrupted, { state: "interrupted" }],
    ["Failed", "without an answer", plainlyFailed(row), { state: "failed" }],
    ["Client left", "before the end", row.abandoned, { state: "abandoned" }],
    ["Unknown", "the gateway died meanwhile", row.unknown, { state: "unknown" }],
  ];
  return (
    <section class="card">
      <header>
        <h2>How {count(row.calls)} calls ended</h2>
      </header>
      <dl class="facts">
        {kinds.map(([name, about, calls, filter]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {calls === 0 ? (
                "none"
              ) : (
                <a href={pathTo("requests", {}, { ...filter, since, group })}>
                  {count(calls)} ({percent(calls, row.calls)})
                </a>
              )}{" "}
              <span class="muted small">{about}</span>
            </dd>
          </div>
        ))}
      </dl>
      <p class="muted small">
        The lists have the receipts that are kept: with <code>receipts.sample</code> below 1, only a share of truncated answers. Calls that
        a limit turned away were never made, and are in the log.
      </p>
    </section>
  );
}
