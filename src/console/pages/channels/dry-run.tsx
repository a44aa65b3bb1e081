import { useSignal } from "@preact/signals";
import { ask, mayChange } from "../../core/api.ts";
import { duration, money, short } from "../../core/format.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { causeText, verdictText } from "../../../usage/call-story.ts";
import { SelectField, TextField } from "../../parts/field.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";

interface ExplainedAnswer {
  readonly outcome: "serve" | "wait" | "refuse";
  readonly refusals: readonly { readonly status: number; readonly code: string; readonly message: string }[];
  readonly mode: "normal" | "last_resort" | null;
  readonly candidates: readonly {
    readonly channel: string;
    readonly model: string;
    readonly tier: number;
    readonly probe: boolean;
    readonly priced: boolean;
  }[];
  readonly skipped: readonly {
    readonly channel: string;
    readonly model: string;
    readonly because: string;
    readonly cause: string | null;
    readonly for_ms: number | null;
  }[];
  readonly retry_after_ms: number | null;
  readonly reserve: { readonly tokens: number; readonly cost_usd: number | null } | null;
}

const operations = ["chat", "transcription", "speech", "embedding"].map((name) => [name, name] as const);

/** What would be done with a request now. Nothing is sent, and nothing is counted. */
export function DryRun({ models }: { readonly models: readonly string[] }) {
  const answer = useSignal<ExplainedAnswer | null>(null);
  const { error, busy, run } = useSubmission(async ({ model, operation, key = "", prompt_tokens = "" }: FormFields) => {
    answer.value = await ask<ExplainedAnswer>("/explain", {
      method: "POST",
      body: {
        model,
        operation,
        ...(key.trim() === "" ? {} : { key: key.trim() }),
        ...(prompt_tokens === "" ? {} : { prompt_tokens: Number(prompt_tokens) }),
      },
    });
  });
  if (!mayChange()) return null;
  return (
    <section class="card">
      <header>
        <h2>Dry run</h2>
        <span class="small muted">What would be done with a request now. Nothing is sent.</span>
      </header>
      <form class="filters" onSubmit={(event) => run(fieldsOf(event))}>
        <TextField label="Model" name="model" required initial={models[0]} list="dry-run-models" error={error.value} />
        <datalist id="dry-run-models">
          {models.slice(0, 200).map((model) => (
            <option key={model} value={model} />
          ))}
        </datalist>
        <SelectField label="Operation" name="operation" options={operations} />
        <TextField label="Key" name="key" placeholder="Without limits" error={error.value} />
        <TextField label="Prompt tokens" name="prompt_tokens" type="number" min={0} error={error.value} />
        <button class="button" disabled={busy.value}>
          Show the plan
        </button>
      </form>
      <div aria-live="polite" class="stack">
        <ErrorNote error={error.value} />
        {answer.value !== null && error.value === null && <PlanView answer={answer.value} />}
      </div>
    </section>
  );
}

const outcomes = {
  serve: ["good", "It would be served"],
  wait: ["warn", "It would wait"],
  refuse: ["bad", "It would be refused"],
} as const;

function PlanView({ answer }: { readonly answer: ExplainedAnswer }) {
  const [tone, text] = outcomes[answer.outcome];
  return (
    <>
      <p>
        <Badge tone={tone}>{text}</Badge> {answer.mode === "last_resort" && "as a last resort: no candidate is healthy. "}
        {answer.retry_after_ms !== null && `A candidate may be free in ${duration(answer.retry_after_ms)}. `}
        {answer.reserve !== null && (
          <span class="small muted">
            It would reserve {short(answer.reserve.tokens)} tokens and {money(answer.reserve.cost_usd)}.
          </span>
        )}
      </p>
      {answer.refusals.map(({ code, status, message }) => (
        <p key={code}>
          <code>
            {status} {code}
          </code>{" "}
          {message}
        </p>
      ))}
      <ol class="steps">
        {answer.candidates.map(({ channel, model, tier, probe, priced }, at) => (
          <li key={`${channel} ${model} ${at}`}>
            <strong>{channel}</strong>
            <span>
              {at === 0 ? "is asked first" : "is next"}, as {model}, tier {tier}
              {probe ? ", as a probe" : ""}
              {priced ? "" : "; its price is not known"}
            </span>
          </li>
        ))}
        {answer.skipped.map(({ channel, model, because, cause, for_ms }, at) => (
          <li key={`skipped ${channel} ${model} ${at}`}>
            <span class="muted">{channel}</span>
            <span class="muted">
              {verdictText(because)}
              {cause === null ? "" : `: ${causeText(cause)}`}
              {for_ms === null ? "" : `, for another ${duration(for_ms)}`}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}
