import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, send } from "../../core/api.ts";
import { count, duration } from "../../core/format.ts";
import { pathTo } from "../../core/location.ts";
import { Snippet } from "../../parts/copy.tsx";
import { TextArea, TextField } from "../../parts/field.tsx";
import { Badge } from "../../parts/notice.tsx";
import { emptyAnswer, EventSplitter, withEvent, type PlayedAnswer } from "./chat-stream.ts";
import { curlFor } from "./code.ts";
import type { PlayProps } from "./play-props.ts";

/** One model that answers, beside others. */
interface ChatLane {
  readonly model: string;
  readonly answer: PlayedAnswer;
  readonly requestId: string | null;
  readonly firstMs: number | null;
  readonly tookMs: number | null;
}

/** A chat with one model, or with several beside each other: how fast each begins, and how long it takes. */
export function ChatPlay({ clientKey, models, address }: PlayProps) {
  const prompt = useSignal("");
  const system = useSignal("");
  const chosen = useSignal("");
  const lanes = useSignal<readonly ChatLane[]>([]);
  const isBusy = useSignal(false);
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  const asked = (chosen.value.trim() === "" ? (models[0] ?? "") : chosen.value)
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "")
    .slice(0, lanesMax);
  const requestOf = (model: string) => ({
    model,
    stream: true,
    stream_options: { include_usage: true },
    messages: [...(system.value === "" ? [] : [{ role: "system", content: system.value }]), { role: "user", content: prompt.value }],
  });
  const run = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy.value || prompt.value.trim() === "" || asked.length === 0) return;
    isBusy.value = true;
    leaving.current = new AbortController();
    lanes.value = asked.map((model) => ({ model, answer: emptyAnswer, requestId: null, firstMs: null, tookMs: null }));
    await Promise.all(
      asked.map((model, at) => play(clientKey, requestOf(model), leaving.current.signal, (change) => laneChanged(lanes, at, change))),
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
        <details>
          <summary>Instructions</summary>
          <TextArea label="System message" name="system" rows={2} value={system.value} onText={(text) => (system.value = text)} />
        </details>
        <TextArea label="Message" name="prompt" rows={4} value={prompt.value} onText={(text) => (prompt.value = text)} />
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
      {asked[0] !== undefined && (
        <details class="card">
          <summary>The same as code</summary>
          <Snippet label="Shell" text={curlFor(address, "/v1/chat/completions", requestOf(asked[0]))} />
        </details>
      )}
    </>
  );
}

const lanesMax = 4;

function laneChanged(lanes: Signal<readonly ChatLane[]>, at: number, change: Partial<ChatLane>): void {
  lanes.value = lanes.value.map((lane, index) => (index === at ? { ...lane, ...change } : lane));
}

function Lane({ lane: { model, answer, requestId, firstMs, tookMs } }: { readonly lane: ChatLane }) {
  return (
    <section class="card stack" aria-busy={tookMs === null}>
      <header>
        <h2>{model}</h2>
        <span class="small muted">
          first {duration(firstMs)}, all {duration(tookMs)}
        </span>
      </header>
      {answer.reasoning !== "" && (
        <details>
          <summary>Reasoning</summary>
          <p class="turn">{answer.reasoning}</p>
        </details>
      )}
      {answer.text !== "" && <p class="turn">{answer.text}</p>}
      {answer.error !== null && <p class="bad">{answer.error}</p>}
      <div class="row small muted">
        {answer.finish !== null && <Badge>{answer.finish}</Badge>}
        {answer.completionTokens !== null && (
          <span>
            {count(answer.promptTokens)} → {count(answer.completionTokens)} tokens
          </span>
        )}
        {requestId !== null && tookMs !== null && <a href={pathTo("request", { id: requestId })}>Why it went this way</a>}
      </div>
    </section>
  );
}

async function play(key: string, request: unknown, signal: AbortSignal, changed: (change: Partial<ChatLane>) => void): Promise<void> {
  const beganMs = performance.now();
  let answer = emptyAnswer;
  try {
    const response = await send("/playground/chat", { method: "POST", body: { key, request }, signal });
    changed({ requestId: response.headers.get("x-sluice-request") });
    const splitter = new EventSplitter();
    const reader = response.body?.getReader();
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      const before = answer;
      for (const data of splitter.push(part.value)) answer = withEvent(answer, data);
      if (before.text === "" && answer.text !== "") changed({ firstMs: performance.now() - beganMs });
      changed({ answer });
    }
  } catch (error) {
    const message = error instanceof ApiError ? error.message : signal.aborted ? "Stopped." : "The connection was lost.";
    changed({ answer: { ...answer, error: message } });
  }
  changed({ tookMs: performance.now() - beganMs });
}
