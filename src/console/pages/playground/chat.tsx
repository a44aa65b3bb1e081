import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { TextArea, TextField } from "../../parts/field.tsx";
import { emptyLane, Lane, playChat, type ChatLane } from "./chat-lane.tsx";
import { chatRequest, shownRequest, type ChatForm, type PlayedRequest } from "./chat-request.ts";
import { chatCode } from "./code.ts";
import type { PlayProps } from "./play-props.ts";
import { SameAsCode } from "./same-as-code.tsx";

/** A chat with one model, or with several beside each other: how fast each begins, how long it takes, and what it costs. */
export function ChatPlay({ clientKey, models, address }: PlayProps) {
  const form = useSignal<ChatForm>({ system: "", prompt: "", images: [], tools: "", schema: "" });
  const chosen = useSignal("");
  const mistake = useSignal("");
  const lanes = useSignal<readonly ChatLane[]>([]);
  const isBusy = useSignal(false);
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  const set = (change: Partial<ChatForm>): void => {
    form.value = { ...form.value, ...change };
  };
  const asked = (chosen.value.trim() === "" ? (models[0] ?? "") : chosen.value)
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")
    .slice(0, lanesMax);
  const first = asked[0] === undefined ? null : chatRequest(asked[0], form.value);
  const shown = first === null || typeof first["mistake"] === "string" ? null : shownRequest(first as PlayedRequest);
  const run = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy.value || form.value.prompt.trim() === "" || asked.length === 0) return;
    const requests: PlayedRequest[] = [];
    for (const model of asked) {
      const request = chatRequest(model, form.value);
      mistake.value = typeof request["mistake"] === "string" ? request["mistake"] : "";
      if (mistake.value !== "") return;
      requests.push(request as PlayedRequest);
    }
    isBusy.value = true;
    leaving.current = new AbortController();
    lanes.value = asked.map(emptyLane);
    await Promise.all(
      requests.map((request, at) => playChat(clientKey, request, leaving.current.signal, (change) => laneChanged(lanes, at, change))),
    );
    isBusy.value = false;
  };
  return (
    <>
      <form class="card stack" onSubmit={(event) => void run(event)}>
        <TextField
          label="Models"
          name="models"
          list="play-models"
          value={chosen.value}
          onText={(text) => (chosen.value = text)}
          placeholder={models[0] ?? ""}
          hint={`Up to ${lanesMax}, separated by commas, to compare them.`}
        />
        <ChatExtras form={form.value} set={set} />
        <TextArea label="Message" name="prompt" rows={4} value={form.value.prompt} onText={(prompt) => set({ prompt })} />
        {mistake.value !== "" && (
          <p class="bad" role="alert">
            {mistake.value}
          </p>
        )}
        <div class="row">
          <button class="button main" disabled={isBusy.value}>
            Send
          </button>
          {isBusy.value && (
            <button type="button" class="button" onClick={() => leaving.current.abort()}>
              Stop
            </button>
          )}
        </div>
      </form>
      <div class="columns">
        {lanes.value.map((lane, at) => (
          <Lane key={at} lane={lane} />
        ))}
      </div>
      {shown !== null && <SameAsCode code={chatCode(address, shown)} />}
    </>
  );
}

const lanesMax = 4;

function laneChanged(lanes: Signal<readonly ChatLane[]>, at: number, change: Partial<ChatLane>): void {
  lanes.value = lanes.value.map((lane, index) => (index === at ? { ...lane, ...change } : lane));
}

interface ChatExtrasProps {
  readonly form: ChatForm;
  readonly set: (change: Partial<ChatForm>) => void;
}

function ChatExtras({ form, set }: ChatExtrasProps) {
  const attach = async (files: FileList | null): Promise<void> => {
    const some = [...(files ?? [])].slice(0, imagesMax).filter(({ size }) => size <= imageBytesMax);
    set({ images: await Promise.all(some.map(dataUrlOf)) });
  };
  return (
    <details>
      <summary>Instructions, images, tools and a schema</summary>
      <div class="stack">
        <TextArea label="System message" name="system" rows={2} value={form.system} onText={(system) => set({ system })} />
        <div class="row">
          <label class="button">
            Add images
            <input type="file" accept="image/*" multiple class="hidden-text" onChange={(event) => void attach(event.currentTarget.files)} />
          </label>
          <span class="small muted" aria-live="polite">
            {form.images.length === 0
              ? `Up to ${imagesMax} of 2 MB each.`
              : `${form.images.length} ${form.images.length === 1 ? "image" : "images"}`}
          </span>
        </div>
        <TextArea
          label="Tools"
          name="tools"
          rows={3}
          value={form.tools}
          onText={(tools) => set({ tools })}
          hint={`A JSON list, as in [{"type": "function", "function": {"name": "weather", "parameters": {}}}].`}
        />
        <TextArea
          label="Schema of the answer"
          name="schema"
          rows={3}
          value={form.schema}
          onText={(schema) => set({ schema })}
          hint="A JSON schema. Empty: the model answers as it likes."
        />
      </div>
    </details>
  );
}

const imagesMax = 4;
const imageBytesMax = 2 * 1024 * 1024;

function dataUrlOf(file: File): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(typeof reader.result === "string" ? reader.result : ""));
    reader.addEventListener("error", () => failed(new Error("The file cannot be read.")));
    reader.readAsDataURL(file);
  });
}
