import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { z } from "zod";
import type { testCallAnswer } from "../../../admin/routes/channels-routes.ts";
import { ask } from "../../core/api.ts";
import { duration } from "../../core/format.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { SelectField, TextField } from "../../parts/field.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";

type TestCallAnswer = z.output<typeof testCallAnswer>;

const operations = [
  ["", "each that it serves"],
  ["chat", "chat"],
  ["transcription", "transcription"],
  ["speech", "speech"],
  ["embedding", "embedding"],
  ["completion", "completion"],
  ["moderation", "moderation"],
  ["rerank", "rerank"],
  ["image", "image"],
] as const;

/** One small real call for each operation of a channel, with what it answered. */
export function TestCalls({ models, path }: { readonly models: readonly string[] | null; readonly path: string }) {
  const calls = useSignal<readonly TestCallAnswer[] | null>(null);
  const { error, busy, run } = useSubmission(async ({ model = "", operation = "" }: FormFields) => {
    calls.value = null;
    const body = { ...(model.trim() === "" ? {} : { model: model.trim() }), ...(operation === "" ? {} : { operations: [operation] }) };
    calls.value = (await ask<{ readonly calls: readonly TestCallAnswer[] }>(`${path}/calls`, { method: "POST", body })).calls;
  });
  return (
    <section class="card stack">
      <h2>Test</h2>
      <p class="small muted">
        Small real calls to this channel alone, whatever its health is. They cost a little, and are on no receipt. What it speaks, it
        transcribes.
      </p>
      <form class="filters" onSubmit={(event) => run(fieldsOf(event))}>
        <TextField
          label="Model to test"
          name="model"
          list="test-models"
          required={models === null}
          placeholder={models === null ? "" : "the first of each"}
        />
        <datalist id="test-models">
          {models?.slice(0, 500).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <SelectField label="Operation to test" name="operation" options={models === null ? operations.slice(1) : operations} />
        <button class="button" disabled={busy.value}>
          {busy.value ? "Asking…" : "Test"}
        </button>
      </form>
      <ErrorNote error={error.value} />
      <div aria-live="polite" class="stack">
        {calls.value?.length === 0 && <p>No model of this channel is known. Name one, and the operation.</p>}
        {calls.value?.map((call) => (
          <Tested key={call.operation} call={call} />
        ))}
      </div>
    </section>
  );
}

function Tested({ call }: { readonly call: TestCallAnswer }) {
  const { operation, model, ok, status, took_ms, outcome, text, audio } = call;
  return (
    <div class="stack">
      <div class="row">
        <strong>{operation}</strong>
        <Badge tone={ok ? "good" : "bad"}>{ok ? "ok" : status === null ? "failed" : `failed, ${status}`}</Badge>
        <span class="small muted">
          {model ?? "no model"}, {duration(took_ms)}
        </span>
      </div>
      {text !== null && text !== "" ? <p class="turn">{text}</p> : audio === null && <p class={ok ? "muted" : "bad"}>{outcome}</p>}
      {audio !== null && <Player type={audio.type} base64={audio.base64} />}
    </div>
  );
}

function Player({ type, base64 }: { readonly type: string; readonly base64: string }) {
  const url = useMemo(() => URL.createObjectURL(new Blob([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))], { type })), [base64]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return <audio controls src={url} aria-label="What it spoke" />;
}
