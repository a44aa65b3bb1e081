import { signal } from "@preact/signals";
import type { ChannelAnswer } from "../../core/answers.ts";
import { ask, mayChange, signedIn } from "../../core/api.ts";
import { place, setQuery } from "../../core/location.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { useSubmission } from "../../core/submit.ts";
import { Choice, TextField } from "../../parts/field.tsx";
import { EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { ChatPlay } from "./chat.tsx";
import type { PlayProps } from "./play-props.ts";
import { SpeechPlay } from "./speech.tsx";
import { TranscriptionPlay } from "./transcription.tsx";

const kinds = [
  ["chat", "Chat"],
  ["transcription", "Transcription"],
  ["speech", "Speech"],
] as const;

/** The key that is tried with, for as long as the page lives. It is never stored. */
const playKey = signal("");

/** Tries the gateway as a client does: with a key, its limits and its budget. */
export function PlaygroundPage() {
  const kind = kinds.find(([name]) => name === place.value.query.get("try"))?.[0] ?? "chat";
  const channels = useLoaded<{ readonly channels: readonly ChannelAnswer[] }>("/channels");
  const health = useLoaded<{ readonly url: string }>("/health");
  const models = [...new Set(channels.data.value?.channels.flatMap((channel) => channel.models ?? []))].toSorted();
  const props: PlayProps = { clientKey: playKey.value.trim(), models, address: health.data.value?.url ?? "" };
  if (!mayChange()) {
    return (
      <Page title="Playground">
        <EmptyState title="The playground needs the role admin" />
      </Page>
    );
  }
  return (
    <Page
      title="Playground"
      about="Calls like those of a client: they are counted, limited and paid for."
      actions={<Choice label="Operation" options={kinds} value={kind} onChoose={(value) => setQuery({ try: value })} />}
    >
      <ErrorNote {...troubleOf(channels, health)} />
      <KeyForPlay />
      <datalist id="play-models">
        {models.slice(0, 500).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {props.clientKey !== "" && kind === "chat" && <ChatPlay {...props} />}
      {props.clientKey !== "" && kind === "transcription" && <TranscriptionPlay {...props} />}
      {props.clientKey !== "" && kind === "speech" && <SpeechPlay {...props} />}
    </Page>
  );
}

function KeyForPlay() {
  const create = useSubmission(async () => {
    const who = signedIn.value;
    const name = who === null || who === "unknown" ? "playground" : `playground of ${who.name}`;
    const expires_at = new Date(Date.now() + keyLifeMs).toISOString();
    const body = { name: `${name}, ${expires_at.slice(0, 16)}`, limits: { budget_usd: "1" }, expires_at };
    const { token } = await ask<{ readonly token: string }>("/keys", { method: "POST", body });
    playKey.value = token;
  });
  return (
    <section class="card stack">
      <div class="filters">
        <TextField
          label="Key"
          name="play-key"
          type="password"
          autoComplete="off"
          value={playKey.value}
          onText={(text) => (playKey.value = text)}
          placeholder="sk-gw_…"
        />
        {playKey.value === "" && (
          <button type="button" class="button" disabled={create.busy.value} onClick={() => create.run(undefined)}>
            Create one for this page
          </button>
        )}
      </div>
      {playKey.value === "" && (
        <p class="small muted">
          A key that is created here may spend one dollar, and expires after twelve hours. The playground forgets it when you leave.
        </p>
      )}
      <ErrorNote error={create.error.value} />
    </section>
  );
}

const keyLifeMs = 12 * 60 * 60_000;
