import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LabRunView, LabScenarioView } from "../../../admin/views/lab-view.ts";
import { ask, mayChange } from "../../core/api.ts";
import { place, setQuery } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { SelectField, TextField } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { LabRunCard } from "./lab-run.tsx";

/** Lets calls meet a fault on purpose, and shows what the gateway does. */
export function LabPage() {
  const scenarios = useLoaded<{ readonly scenarios: readonly LabScenarioView[] }>("/lab/scenarios", {}, { off: !mayChange() });
  if (!mayChange()) {
    return (
      <Page title="Fault lab">
        <EmptyState title="The fault lab needs the role admin" />
      </Page>
    );
  }
  return (
    <Page
      title="Fault lab"
      about="Break a channel on purpose, and watch the failover. The calls are real; no client, key, receipt or provider has part in them."
    >
      <ErrorNote error={scenarios.error.value} onRetry={() => scenarios.reload()} />
      {scenarios.data.value !== null && <LabBench scenarios={scenarios.data.value.scenarios} />}
    </Page>
  );
}

function LabBench({ scenarios }: { readonly scenarios: readonly LabScenarioView[] }) {
  // The address names the run, so that it can be opened again and shown to others.
  const id = place.value.query.get("run") ?? "";
  /** The run that does not change any more. */
  const over = useSignal("");
  /** What starting or ending the run has answered. */
  const given = useSignal<LabRunView | null>(null);
  const isOff = id === "" || over.value === id;
  const loaded = useLoaded<LabRunView>(`/lab/runs/${encodeURIComponent(id)}`, {}, { everyMs: watchMs, off: isOff });
  const known = [loaded.data.value, given.value].flatMap((one) => (one?.id === id ? [one] : []));
  const run = known.find(({ state }) => state !== "running") ?? known[0] ?? null;
  useEffect(() => {
    if (run !== null && run.state !== "running") over.value = run.id;
  }, [run]);
  const name = place.value.query.get("scenario") ?? run?.scenario ?? "";
  const scenario = scenarios.find((one) => one.name === name) ?? scenarios[0];
  const start = useSubmission(async ({ scenario: chosen, mode, calls, rate }: FormFields) => {
    const body = { scenario: chosen, calls: Number(calls), rate: Number(rate), ...(mode === undefined ? {} : { mode }) };
    const started = await ask<LabRunView>("/lab/runs", { method: "POST", body });
    given.value = started;
    setQuery({ run: started.id, scenario: started.scenario });
  });
  const stop = useSubmission(async (which: string) => {
    // A run that is ended is forgotten, and must not be asked for.
    over.value = which;
    given.value = await ask<LabRunView>(`/lab/runs/${encodeURIComponent(which)}`, { method: "DELETE" });
  });
  if (scenario === undefined) return null;
  return (
    <>
      <section class="card stack">
        <form class="filters" onSubmit={(event) => start.run(fieldsOf(event))}>
          <SelectField
            label="Scenario"
            name="scenario"
            value={scenario.name}
            options={scenarios.map((one) => [one.name, one.title] as const)}
            onChoose={(chosen) => setQuery({ scenario: chosen })}
          />
          {scenario.modes.length > 1 && (
            <SelectField label="Answers" name="mode" options={scenario.modes.map((mode) => [mode, mode] as const)} />
          )}
          <TextField label="Calls" name="calls" type="number" min={1} initial="6" required error={start.error.value} />
          <TextField label="Calls a second" name="rate" type="number" min={0.1} step="any" initial="2" required error={start.error.value} />
          <button class="button main" disabled={start.busy.value || run?.state === "running"}>
            Start
          </button>
        </form>
        <dl class="facts">
          <div>
            <dt>The fault</dt>
            <dd>{scenario.fault}</dd>
          </div>
          <div>
            <dt>What should happen</dt>
            <dd>{scenario.expected}</dd>
          </div>
        </dl>
        <ErrorNote error={start.error.value ?? stop.error.value} />
      </section>
      {id !== "" && run === null && <ErrorNote error={loaded.error.value} />}
      {run !== null && (
        <LabRunCard
          run={run}
          expected={scenarios.find((one) => one.name === run.scenario)?.expected ?? ""}
          onStop={() => stop.run(run.id)}
        />
      )}
    </>
  );
}

/** As often as the live page gets its frames. */
const watchMs = 250;
