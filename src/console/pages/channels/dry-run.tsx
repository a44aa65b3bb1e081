import { useSignal } from "@preact/signals";
import type { ExplainedAnswer } from "../../core/answers.ts";
import { ApiError, ask, mayChange } from "../../core/api.ts";
import { duration, money, short } from "../../core/format.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { causeText, verdictText } from "../../../usage/call-story.ts";
import { Snippet } from "../../parts/copy.tsx";
import { SelectField, TextArea, TextField } from "../../parts/field.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";

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
  const paste = useSubmission(async ({ api, request = "", key = "" }: FormFields) => {
    const body = { api, request: pasted(request), ...(key.trim() === "" ? {} : { key: key.trim() }) };
    answer.value = await ask<ExplainedAnswer>("/explain/request", { method: "POST", body });
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
      <details>
        <summary>Paste a request, to see what would be sent upstream</summary>
        <form class="stack" onSubmit={(event) => paste.run(fieldsOf(event))}>
          <div class="columns">
            <SelectField label="Sent to" name="api" options={apis} />
            <TextField label="Key" name="key" placeholder="Without limits" error={paste.error.value} />
          </div>
          <TextArea
            label="Request"
            name="request"
            rows={6}
            error={paste.error.value}
            placeholder={`{"model": "${models[0] ?? "fast"}", "messages": [{"role": "user", "content": "Hello"}]}`}
          />
          <div class="row">
            <button class="button" disabled={paste.busy.value}>
              Show what would be sent
            </button>
          </div>
          <ErrorNote error={paste.error.value} />
        </form>
      </details>
      <div aria-live="polite" class="stack">
        <ErrorNote error={error.value} />
        {answer.value !== null && error.value === null && <PlanView answer={answer.value} />}
      </div>
    </section>
  );
}

const apis = [
  ["chat", "/v1/chat/completions"],
  ["responses", "/v1/responses"],
  ["messages", "/v1/messages"],
  ["speech", "/v1/audio/speech"],
  ["embedding", "/v1/embeddings"],
] as const;

function pasted(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new ApiError(0, "not_json", "The request must be JSON, as a client sends it.", "request", null);
  }
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
      {answer.unknown.map((sentence) => (
        <p key={sentence}>{sentence}</p>
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
      {answer.sends?.map((send, at) => (
        <Sending key={`${send.channel} ${send.model} ${at}`} send={send} />
      ))}
    </>
  );
}

function Sending({ send }: { readonly send: NonNullable<ExplainedAnswer["sends"]>[number] }) {
  const { channel, refusal, method, url, headers, body, translated, dropped, clamped_to } = send;
  if (refusal !== null) {
    return (
      <p>
        <strong>{channel}</strong> cannot be sent it: {refusal}
      </p>
    );
  }
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <details>
      <summary>
        {channel} would be sent {translated ? "a translation" : "this"}
      </summary>
      <div class="stack">
        {dropped.length > 0 && (
          <p>
            Left out: <strong>{dropped.join(", ")}</strong>
          </p>
        )}
        {clamped_to !== null && <p>At most {clamped_to} output tokens, as its model has no more.</p>}
        <Snippet label="Request" text={[`${method} ${url}`, ...head, "", indented(body ?? "")].join("\n")} />
      </div>
    </details>
  );
}

function indented(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
