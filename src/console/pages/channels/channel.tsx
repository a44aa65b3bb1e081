import { useSignal } from "@preact/signals";
import type { ChannelAnswer } from "../../core/answers.ts";
import { ApiError, ask, mayChange } from "../../core/api.ts";
import { ago } from "../../core/format.ts";
import { go, pathTo, place } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { useSubmission } from "../../core/submit.ts";
import { stateTone } from "../../core/tones.ts";
import { causeText } from "../../../usage/call-story.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { Fact } from "../../parts/fact.tsx";
import { TextField } from "../../parts/field.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { balanceChange, balanceDraft, ifUnchanged, type BalanceDraft } from "./channel-entry.ts";
import { EditChannel } from "./edit-channel.tsx";
import { DryRun } from "./dry-run.tsx";
import { TestCalls } from "./test-calls.tsx";

/** One channel: why it is not asked now, when it will be, and what can be done about it. */
export function ChannelPage() {
  const name = place.value.params["name"] ?? "";
  const path = `/channels/${encodeURIComponent(name)}`;
  const loaded = useLoaded<ChannelAnswer>(path, {}, { everyMs: 5000 });
  const channel = loaded.data.value;
  return (
    <Page
      title={name}
      about="Channel"
      actions={
        <a class="button small" href={pathTo("channels")}>
          All channels
        </a>
      }
    >
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {channel !== null && (
        <>
          <Health channel={channel} path={path} onChanged={() => loaded.reload()} />
          {mayChange() && <TestCalls key={`${channel.models === null}`} models={channel.models} path={path} />}
          <ChannelSettings channel={channel} path={path} onChanged={() => loaded.reload()} />
          <DryRun models={channel.models ?? []} />
        </>
      )}
    </Page>
  );
}

interface PanelProps {
  readonly channel: ChannelAnswer;
  readonly path: string;
  readonly onChanged: () => void;
}

function Health({ channel, path, onChanged }: PanelProps) {
  const clear = useSubmission(async () => {
    await ask(`${path}/cool-downs`, { method: "DELETE" });
    onChanged();
  });
  const forget = useSubmission(async () => {
    await ask(`${path}/learned`, { method: "DELETE" });
    onChanged();
  });
  return (
    <section class="card">
      <header>
        <h2>
          Health <Badge tone={stateTone(channel.state)}>{channel.state}</Badge>
        </h2>
      </header>
      <div class="stack">
        {channel.troubles.length === 0 ? (
          <p class="muted">{healthText[channel.state]}</p>
        ) : (
          <ul class="stack">
            {channel.troubles.map((trouble) => (
              <li key={trouble.scope} class="note-box warn">
                <div>
                  <strong>{trouble.scope}</strong>
                  <p>
                    {causeText(trouble.cause)};{" "}
                    {trouble.standing === "open" ? `asked again ${ago(trouble.until_at)}` : "single requests try whether it works again"}.
                  </p>
                </div>
              </li>
            ))}
          </ul>
        )}
        {channel.troubles.length > 0 && mayChange() && (
          <div class="row">
            <button type="button" class="button" disabled={clear.busy.value} onClick={() => clear.run(undefined)}>
              Clear the cool-down
            </button>
            <span class="small muted">The next call asks it again. If it still fails, it cools down again.</span>
          </div>
        )}
        <ErrorNote error={clear.error.value ?? forget.error.value} />
        {channel.learned.length > 0 && (
          <details>
            <summary>Learned from its refusals ({channel.learned.length})</summary>
            <ul class="stack">
              {channel.learned.map((lesson) => (
                <li key={`${lesson.model} ${lesson.unsupported ?? ""}`}>
                  <strong>{lesson.model}</strong>
                  {lesson.max_tokens !== null && ` is asked for at most ${lesson.max_tokens} output tokens`}
                  {lesson.unsupported !== null && ` is not sent ${lesson.unsupported}`}
                  <span class="small muted">, until {ago(lesson.until_at)}</span>
                </li>
              ))}
            </ul>
            {mayChange() && (
              <button type="button" class="button small" disabled={forget.busy.value} onClick={() => forget.run(undefined)}>
                Forget it
              </button>
            )}
          </details>
        )}
      </div>
    </section>
  );
}

const healthText: Readonly<Record<ChannelAnswer["state"], string>> = {
  ready: "It works: nothing cools down.",
  impaired: "Some of it cools down.",
  cooling: "All of it cools down.",
  idle: "It serves no model. List its models, or check whether its upstream lists any.",
  absent: "This process does not use it: it was just created, or its settings cannot be used. The log says why.",
};

function ChannelSettings({ channel, path, onChanged }: PanelProps) {
  const removes = useSignal(false);
  const edits = useSignal(false);
  const remove = useSubmission(async () => {
    await ask(path, { method: "DELETE" });
    go(pathTo("channels"));
  });
  const isStored = channel.source === "store";
  return (
    <section class="card">
      <header>
        <h2>Settings</h2>
        {isStored && mayChange() && (
          <div class="row">
            <button type="button" class="button small" onClick={() => (edits.value = true)}>
              Change all settings
            </button>
            <button type="button" class="button small quiet" onClick={() => (removes.value = true)}>
              Remove
            </button>
          </div>
        )}
      </header>
      <dl class="facts">
        <Fact name="Provider">{channel.provider ?? "own address"}</Fact>
        <Fact name="Address">{channel.base_url ?? "–"}</Fact>
        <Fact name="Tier">{channel.tier ?? "–"}</Fact>
        <Fact name="Weight">{channel.weight ?? "–"}</Fact>
        <Fact name="Running">
          {channel.running}
          {channel.concurrency === null ? "" : ` of ${channel.concurrency}`}
        </Fact>
        <Fact name="Tags">{channel.tags.length === 0 ? "none" : channel.tags.join(", ")}</Fact>
        <Fact name="Keys">{channel.secrets.length === 0 ? "–" : channel.secrets.map(({ last4 }) => `…${last4}`).join(", ")}</Fact>
        <Fact name="Kept in">{isStored ? "the store" : "the configuration file, where it is changed"}</Fact>
      </dl>
      {isStored && mayChange() && <BalanceForm key={channel.name} channel={channel} path={path} onChanged={onChanged} />}
      <details>
        <summary>Models ({channel.models === null ? "any" : channel.models.length})</summary>
        <p class="mono">{channel.models === null ? "It takes any model that no other channel lists." : channel.models.join(", ")}</p>
      </details>
      {edits.value && <EditChannel channel={channel} path={path} onClose={() => (edits.value = false)} onChanged={onChanged} />}
      {removes.value && (
        <Confirm
          title={`Remove ${channel.name}?`}
          action="Remove it"
          onClose={() => (removes.value = false)}
          onConfirm={() => remove.run(undefined)}
        >
          <p>New calls no longer use it. Calls that are running go on. Its keys are deleted and cannot be shown again.</p>
          <ErrorNote error={remove.error.value} />
        </Confirm>
      )}
    </section>
  );
}

/** Its tier and its weight: those of the channel until somebody types, and from then on what is typed. */
function BalanceForm({ channel, path, onChanged }: PanelProps) {
  const typed = useSignal<BalanceDraft | null>(null);
  const draft = typed.value ?? balanceDraft(channel);
  const { error, busy, run } = useSubmission(async (sent: BalanceDraft) => {
    try {
      const entry = balanceChange(sent);
      if (Object.keys(entry).length > 0) await ask(path, { method: "PATCH", body: { entry }, ...ifUnchanged(sent.shown.etag) });
    } catch (reason) {
      // What others made of it is shown instead, and can be changed.
      if (!(reason instanceof ApiError) || reason.status !== 412) throw reason;
      typed.value = null;
      onChanged();
      throw reason;
    }
    typed.value = null;
    onChanged();
  });
  const submit = (event: Event): void => {
    event.preventDefault();
    run(draft);
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <TextField
          label="Tier"
          name="tier"
          type="number"
          required
          min={0}
          value={draft.tier}
          onText={(tier) => (typed.value = { ...draft, tier })}
          error={error.value}
        />
        <TextField
          label="Weight"
          name="weight"
          type="number"
          required
          min={0}
          step="any"
          value={draft.weight}
          onText={(weight) => (typed.value = { ...draft, weight })}
          error={error.value}
        />
        <button class="button" disabled={busy.value}>
          Change
        </button>
      </form>
      <ErrorNote error={error.value} />
    </>
  );
}
