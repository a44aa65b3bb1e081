import { useMemo } from "preact/hooks";
import { ago, change, count, duration, money, percent, short } from "../../core/format.ts";
import { pathTo, place, setQuery } from "../../core/location.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { Chart } from "../../parts/chart.tsx";
import { Figure } from "../../parts/fact.tsx";
import { Choice } from "../../parts/field.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { problemPath, seriesOf, shownProblems, type OverviewAnswer, type ProblemAnswer } from "./overview-answer.ts";

const spans = [
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["90d", "90 days"],
] as const;

/** Is it up, is anything failing, what does it cost: on one page. */
export function OverviewPage() {
  const asked = place.value.query.get("span");
  const span = spans.find(([name]) => name === asked)?.[0] ?? "24h";
  const loaded = useLoaded<OverviewAnswer>("/overview", { span }, { everyMs: 10_000 });
  const problems = useLoaded<{ readonly problems: readonly ProblemAnswer[]; readonly complete: boolean }>(
    "/problems",
    {},
    { everyMs: 5000 },
  );
  const overview = loaded.data.value;
  return (
    <Page title="Overview" actions={<Choice label="Span" options={spans} value={span} onChoose={(value) => setQuery({ span: value })} />}>
      <Problems problems={shownProblems(problems.data.value?.problems ?? null, problems.error.value !== null)} />
      {problems.data.value?.complete === false && (
        <p class="muted small">More keys and groups have budgets than are looked at here: the page of each shows what is left.</p>
      )}
      <ErrorNote {...troubleOf(problems, loaded)} />
      {overview !== null && <Figures overview={overview} />}
      {overview !== null && overview.series.length > 0 && <Charts overview={overview} />}
      {overview !== null && overview.totals.calls === 0 && <NoCalls overview={overview} />}
    </Page>
  );
}

function Problems({ problems }: { readonly problems: readonly ProblemAnswer[] | null }) {
  if (problems === null) return null;
  if (problems.length === 0) {
    return (
      <p>
        <Badge tone="good">Everything works</Badge> <span class="muted small">No channel cools down, and no budget is short.</span>
      </p>
    );
  }
  return (
    <section aria-label="What is wrong now">
      <ul class="problems">
        {problems.map((problem) => {
          const path = problemPath(problem);
          return (
            <li key={`${problem.kind} ${problem.subject ?? ""}`} class={`note-box ${problem.severity === "critical" ? "bad" : "warn"}`}>
              <div>
                <strong>{problem.message}</strong>
                <p class="small">
                  {problem.next}
                  {problem.until_at !== null && ` Tried again ${ago(problem.until_at)}.`}
                </p>
              </div>
              {path !== null && (
                <a class="button small" href={path}>
                  Look
                </a>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Figures({ overview }: { readonly overview: OverviewAnswer }) {
  const { totals, before, now } = overview;
  const compared = (value: number | null, other: number | null | undefined): string => {
    const found = change(value ?? 0, other ?? 0);
    return found === null ? "" : `${found.text} against the span before`;
  };
  const { first_content: first, first_content_before: firstBefore } = overview;
  return (
    <dl class="cards">
      <Figure name="Running now" value={count(now.running)} note={`${short(now.calls_per_minute)} calls a minute`} />
      <Figure name="Calls" value={short(totals.calls)} note={compared(totals.calls, before?.calls)} />
      <Figure
        name="Failed"
        value={percent(totals.failed, totals.calls)}
        note={`${count(totals.failed)} calls`}
        isBad={totals.failed / Math.max(1, totals.calls) > 0.05}
      />
      <Figure name="Cost" value={money(totals.cost_usd)} note={compared(totals.cost_usd, before?.cost_usd)} />
      <Figure
        name="Tokens"
        value={short(totals.input_tokens + totals.output_tokens)}
        note={`${short(totals.input_tokens)} in, ${short(totals.output_tokens)} out`}
      />
      <Figure
        name="First content, p50"
        value={first === null ? "–" : duration(first.p50_ms)}
        note={
          first === null
            ? "no stream in this span"
            : `p95 ${duration(first.p95_ms)}, p99 ${duration(first.p99_ms)}${firstBefore === null ? "" : `; p50 before: ${duration(firstBefore.p50_ms)}`}`
        }
      />
    </dl>
  );
}

function Charts({ overview }: { readonly overview: OverviewAnswer }) {
  const { at, calls, failed, cost } = useMemo(() => seriesOf(overview), [overview]);
  const callSeries = useMemo(
    () => [
      { label: "Calls", colour: "--series-1", values: calls, isFilled: true },
      { label: "Failed", colour: "--series-bad", values: failed },
    ],
    [calls, failed],
  );
  const costSeries = useMemo(() => [{ label: "Cost", colour: "--series-2", values: cost, isFilled: true }], [cost]);
  return (
    <>
      <section class="card">
        <header>
          <h2>Calls</h2>
        </header>
        <Chart
          label={`Calls over time: ${count(overview.totals.calls)}, of which ${count(overview.totals.failed)} failed`}
          at={at}
          series={callSeries}
          format={short}
        />
      </section>
      <section class="card">
        <header>
          <h2>Cost</h2>
        </header>
        <Chart label={`Cost over time: ${money(overview.totals.cost_usd)}`} at={at} series={costSeries} format={money} />
      </section>
      <section class="card">
        <header>
          <h2>By operation</h2>
          <a href={pathTo("usage")}>Usage in detail</a>
        </header>
        <dl class="facts">
          {overview.by_operation.map(({ operation, calls: all, failed: lost }) => (
            <div key={operation}>
              <dt>{operation}</dt>
              <dd>
                {count(all)} calls, {percent(lost, all)} failed
              </dd>
            </div>
          ))}
        </dl>
      </section>
    </>
  );
}

function NoCalls({ overview: { span, now } }: { readonly overview: OverviewAnswer }) {
  if (span === "1h" && now.since_at === null) {
    return (
      <EmptyState title="The last hour is not counted">
        <p>
          It is made of metrics, which <code>metrics.enabled</code> turns off. Longer spans come from receipts.
        </p>
      </EmptyState>
    );
  }
  return (
    <EmptyState title={span === "1h" ? "No calls in the last hour" : "No calls in this span"}>
      <p>
        {span === "1h" ? "The last hour is counted since the gateway was started." : "Give a client the address of the gateway and a key."}
      </p>
      <a class="button main" href={pathTo("setup")}>
        Set up a client
      </a>
    </EmptyState>
  );
}
