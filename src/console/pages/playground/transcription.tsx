import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { ApiError, send } from "../../core/api.ts";
import { bytes, duration } from "../../core/format.ts";
import { fieldsOf, useSubmission, type FormFields } from "../../core/submit.ts";
import { SelectField, TextField } from "../../parts/field.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { transcriptionCode } from "./code.ts";
import { Recording } from "./recording.tsx";
import { subtitlesOf } from "./subtitles.ts";
import type { PlayProps } from "./play-props.ts";
import { SameAsCode } from "./same-as-code.tsx";

const formats = ["json", "text", "srt", "vtt", "verbose_json"].map((name) => [name, name] as const);

/** Transcribes a file or the microphone. */
export function TranscriptionPlay({ clientKey, address }: PlayProps) {
  const recording = useSignal<File | null>(null);
  const isRecording = useSignal(false);
  const seconds = useSignal(0);
  const recorder = useRef<MediaRecorder | null>(null);
  const result = useSignal<{ readonly text: string; readonly tookMs: number; readonly fields: TranscriptionFields } | null>(null);
  const microphone = useSubmission(async () => {
    if (isRecording.value) {
      recorder.current?.stop();
      return;
    }
    const stream = await openMicrophone();
    const chunks: Blob[] = [];
    const made = new MediaRecorder(stream);
    recorder.current = made;
    made.ondataavailable = ({ data }) => chunks.push(data);
    made.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      isRecording.value = false;
      chosen(new File(chunks, `recording.${made.mimeType.includes("mp4") ? "mp4" : "webm"}`, { type: made.mimeType }));
    };
    made.start();
    isRecording.value = true;
    seconds.value = 0;
    const timer = setInterval(() => {
      if (made.state === "recording") seconds.value += 1;
      else clearInterval(timer);
    }, 1000);
  });
  const chosen = (file: File | undefined): void => {
    if (file === undefined) return;
    recording.value = file;
    result.value = null;
  };
  const { error, busy, run } = useSubmission(async ({ model = "", language = "", response_format = "json" }: FormFields) => {
    const file = recording.value;
    if (file === null) throw new ApiError(0, "no_file", "Choose a file, or record something first.", null, null);
    if (file.size > fileBytesMax)
      throw new ApiError(0, "too_large", `The playground takes ${bytes(fileBytesMax)} at most. Use a client for larger files.`, null, null);
    const fields = { model, response_format, ...(language === "" ? {} : { language }) };
    const beganMs = performance.now();
    const response = await send("/playground/transcription", {
      method: "POST",
      body: { key: clientKey, file: await base64Of(file), file_name: file.name, fields },
    });
    result.value = { text: await response.text(), tookMs: performance.now() - beganMs, fields };
  });
  return (
    <>
      <form class="card stack" onSubmit={(event) => run(fieldsOf(event))}>
        <div class="columns">
          <TextField label="Model" name="model" list="play-models" required />
          <TextField label="Language" name="language" placeholder="Found out by itself" />
          <SelectField label="Format" name="response_format" options={formats} />
        </div>
        <div class="row">
          <label class="button">
            Choose a file
            <input type="file" accept="audio/*,video/*" class="hidden-text" onChange={(event) => chosen(event.currentTarget.files?.[0])} />
          </label>
          <button type="button" class={`button ${isRecording.value ? "danger" : ""}`} onClick={() => microphone.run(undefined)}>
            {isRecording.value ? `Stop recording (${seconds.value} s)` : "Record"}
          </button>
          <span class="small muted" aria-live="polite">
            {recording.value === null ? "" : `${recording.value.name}, ${bytes(recording.value.size)}`}
          </span>
        </div>
        <div class="row">
          <button class="button main" disabled={busy.value || isRecording.value}>
            {busy.value ? "Transcribing…" : "Transcribe"}
          </button>
        </div>
        <ErrorNote error={error.value ?? microphone.error.value} />
      </form>
      {recording.value !== null && (
        <section class="card">
          <Recording
            file={recording.value}
            subtitles={result.value === null ? null : subtitlesOf(result.value.fields.response_format, result.value.text)}
          />
        </section>
      )}
      {result.value !== null && (
        <section class="card stack">
          <p class="small muted">Took {duration(result.value.tookMs)}.</p>
          <p class="turn">{result.value.text}</p>
        </section>
      )}
      {result.value !== null && <SameAsCode code={transcriptionCode(address, recording.value?.name ?? "audio.wav", result.value.fields)} />}
    </>
  );
}

interface TranscriptionFields extends Readonly<Record<string, string>> {
  readonly response_format: string;
}

const fileBytesMax = 8 * 1024 * 1024;

async function openMicrophone(): Promise<MediaStream> {
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch {
    throw new ApiError(
      0,
      "no_microphone",
      "The browser gives no access to a microphone. Pages on plain HTTP have none, except on this machine.",
      null,
      null,
    );
  }
}

async function base64Of(file: File): Promise<string> {
  const data = new Uint8Array(await file.arrayBuffer());
  const parts: string[] = [];
  for (let at = 0; at < data.length; at += chunkBytes) parts.push(String.fromCharCode(...data.subarray(at, at + chunkBytes)));
  return btoa(parts.join(""));
}

/** More arguments than this would not fit on the stack. */
const chunkBytes = 32_768;
