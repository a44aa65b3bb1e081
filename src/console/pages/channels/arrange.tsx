import { useEffect, useRef } from "preact/hooks";
import type { ChannelAnswer } from "../../core/answers.ts";
import { ask } from "../../core/api.ts";
import { useSubmission } from "../../core/submit.ts";
import { ErrorNote } from "../../parts/notice.tsx";
import { ifUnchanged } from "./channel-entry.ts";
import { neighbourTier, tiersOf } from "./tiers.ts";

interface ChannelMove {
  readonly channel: ChannelAnswer;
  readonly entry: { readonly tier?: number; readonly weight?: number };
}

/** Tiers and weights: a channel is dragged to another tier, or moved with its buttons. Those of the file stay where they are. */
export function Arrange({ channels, onChanged }: { readonly channels: readonly ChannelAnswer[]; readonly onChanged: () => void }) {
  const { error, busy, run } = useSubmission(async ({ channel, entry }: ChannelMove) => {
    await ask(`/channels/${encodeURIComponent(channel.name)}`, {
      method: "PATCH",
      body: { entry },
      ...ifUnchanged(channel.etag),
    });
    onChanged();
  });
  const tiers = tiersOf(channels);
  const numbers = tiers.map(([tier]) => tier);
  const drop = (event: DragEvent, tier: number): void => {
    event.preventDefault();
    const name = event.dataTransfer?.getData("text/plain");
    const channel = channels.find((one) => one.name === name && one.source === "store");
    if (channel !== undefined && channel.tier !== tier) run({ channel, entry: { tier } });
  };
  return (
    <details class="card">
      <summary>Arrange tiers and weights</summary>
      <ErrorNote error={error.value} />
      <ol class="tiers">
        {tiers.map(([tier, some]) => (
          <li key={tier} onDragOver={(event) => event.preventDefault()} onDrop={(event) => drop(event, tier)}>
            <h3>Tier {tier}</h3>
            <ul class="stack">
              {some.map((channel) => (
                <ChannelCard
                  key={channel.name}
                  channel={channel}
                  tiers={numbers}
                  busy={busy.value}
                  move={(entry) => run({ channel, entry })}
                />
              ))}
            </ul>
          </li>
        ))}
      </ol>
    </details>
  );
}

interface ChannelCardProps {
  readonly channel: ChannelAnswer;
  readonly tiers: readonly number[];
  readonly busy: boolean;
  readonly move: (entry: ChannelMove["entry"]) => void;
}

function ChannelCard({ channel, tiers, busy, move }: ChannelCardProps) {
  const { name, tier, weight, source } = channel;
  if (source === "file") {
    return (
      <li class="row">
        <strong>{name}</strong>
        <span class="small muted">weight {weight ?? "–"}, in the configuration file</span>
      </li>
    );
  }
  const button = (step: -1 | 1, text: string) => {
    const to = neighbourTier(tiers, tier ?? 0, step);
    return (
      <button
        type="button"
        class="button small"
        disabled={busy || to === null}
        aria-label={`Ask ${name} ${text}`}
        onClick={() => to !== null && move({ tier: to })}
      >
        {text}
      </button>
    );
  };
  return (
    <li class="row" draggable onDragStart={(event) => event.dataTransfer?.setData("text/plain", name)}>
      <strong>{name}</strong>
      {button(-1, "earlier")}
      {button(1, "later")}
      <label class="row small">
        weight
        <WeightInput weight={weight ?? 1} onChange={(changed) => move({ weight: changed })} />
      </label>
    </li>
  );
}

/** It follows a weight that changes, and else keeps what is being typed while the list is asked for again. */
function WeightInput({ weight, onChange }: { readonly weight: number; readonly onChange: (weight: number) => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (input.current !== null) input.current.value = String(weight);
  }, [weight]);
  return (
    <input
      ref={input}
      class="narrow"
      type="number"
      required
      min={0}
      step="any"
      defaultValue={String(weight)}
      onChange={({ currentTarget }) => {
        if (currentTarget.reportValidity()) onChange(Number(currentTarget.value));
      }}
    />
  );
}
