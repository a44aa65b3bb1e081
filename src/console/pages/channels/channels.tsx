import { useSignal } from "@preact/signals";
import type { ChannelAnswer } from "../../core/answers.ts";
import { mayChange } from "../../core/api.ts";
import { ago } from "../../core/format.ts";
import { pathTo } from "../../core/location.ts";
import { useLoaded } from "../../core/query.ts";
import { stateTone } from "../../core/tones.ts";
import { causeText } from "../../../usage/call-story.ts";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { Arrange } from "./arrange.tsx";
import { AddChannel } from "./add-channel.tsx";

/** The ways to upstreams, with their health in this process. */
export function ChannelsPage() {
  const loaded = useLoaded<{ readonly channels: readonly ChannelAnswer[] }>("/channels", {}, { everyMs: 5000 });
  const adds = useSignal(false);
  const channels = loaded.data.value?.channels ?? null;
  const add = mayChange() && (
    <button type="button" class="button main" onClick={() => (adds.value = true)}>
      Add a channel
    </button>
  );
  return (
    <Page title="Channels" about="Lower tiers are asked first; within a tier, calls are divided by weight." actions={add}>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {channels !== null && channels.length === 0 && (
        <EmptyState title="No channel yet">
          <p>Without a channel no model can answer. Add one here, or in the configuration file.</p>
        </EmptyState>
      )}
      {channels !== null && channels.length > 0 && (
        <DataTable label="Channels" columns={columns} rows={inOrder(channels)} keyOf={({ name }) => name} />
      )}
      {channels !== null && channels.length > 1 && mayChange() && <Arrange channels={channels} onChanged={() => loaded.reload()} />}
      {adds.value && <AddChannel onClose={() => (adds.value = false)} onAdded={() => loaded.reload()} />}
    </Page>
  );
}

export function inOrder(channels: readonly ChannelAnswer[]): readonly ChannelAnswer[] {
  return channels.toSorted((one, other) => (one.tier ?? 99) - (other.tier ?? 99) || (one.name < other.name ? -1 : 1));
}

const columns: readonly TableColumn<ChannelAnswer>[] = [
  { title: "Name", cell: ({ name }) => <a href={pathTo("channel", { name })}>{name}</a>, whole: ({ name }) => name },
  {
    title: "State",
    cell: ({ state, cooling_until_at, troubles }) => (
      <>
        <Badge tone={stateTone(state)}>{state}</Badge>{" "}
        <span class="small muted">
          {troubles[0] === undefined ? "" : causeText(troubles[0].cause)}
          {cooling_until_at === null ? "" : `, tried again ${ago(cooling_until_at)}`}
        </span>
      </>
    ),
  },
  { title: "Provider", cell: ({ provider }) => provider ?? <span class="muted">own address</span> },
  { title: "Models", cell: ({ models }) => (models === null ? "any" : models.length), isNumber: true },
  { title: "Tier", cell: ({ tier }) => tier ?? "–", isNumber: true },
  { title: "Weight", cell: ({ weight }) => weight ?? "–", isNumber: true },
  { title: "Running", cell: ({ running }) => running, isNumber: true },
  { title: "Kept in", cell: ({ source }) => (source === "file" ? "the file" : "the store") },
];
