import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { send } from "../../core/api.ts";
import { duration } from "../../core/format.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { SelectField, TextArea, TextField } from "../../parts/field.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { speechCode } from "./code.ts";
import type { PlayProps } from "./play-props.ts";
import { SameAsCode } from "./same-as-code.tsx";

const formats = ["mp3", "wav", "opus", "flac", "aac"].map((name) => [name, name] as const);

/** Speaks a text, and plays it. */
export function SpeechPlay({ clientKey, address }: PlayProps) {
  const sound = useSignal<{ readonly url: string; readonly tookMs: number } | null>(null);
  const request = useSignal<Readonly<Record<string, unknown>> | null>(null);
  useEffect(
    () => () => {
      if (sound.value !== null) URL.revokeObjectURL(sound.value.url);
    },
    [],
  );
  const { error, busy, run } = useSubmission(async ({ model, voice = "", input, response_format }: FormFields) => {
    const body = { model, voice, input, response_format };
    request.value = body;
    const beganMs = performance.now();
    const response = await send("/playground/speech", { method: "POST", body: { key: clientKey, request: body } });
    const url = URL.createObjectURL(await response.blob());
    if (sound.value !== null) URL.revokeObjectURL(sound.value.url);
    sound.value = { url, tookMs: performance.now() - beganMs };
  });
  return (
    <>
      <form class="card stack" onSubmit={(event) => run(fieldsOf(event))}>
        <div class="columns">
          <TextField label="Model" name="model" list="play-models" required />
          <TextField label="Voice" name="voice" initial="alloy" required hint="A model without this voice uses one of its own." />
          <SelectField label="Format" name="response_format" options={formats} />
        </div>
        <TextArea label="Text" name="input" rows={4} />
        <div class="row">
          <button class="button main" disabled={busy.value}>
            {busy.value ? "Speaking…" : "Speak"}
          </button>
        </div>
        <ErrorNote error={error.value} />
      </form>
      {sound.value !== null && (
        <section class="card stack">
          <p class="small muted">Made in {duration(sound.value.tookMs)}.</p>
          <audio controls src={sound.value.url} />
        </section>
      )}
      {request.value !== null && <SameAsCode code={speechCode(address, request.value)} />}
    </>
  );
}
