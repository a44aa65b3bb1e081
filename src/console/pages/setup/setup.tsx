import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import guide from "../../../../docs/guides/clients.md" with { type: "text" };
import type { ChannelAnswer, RequestSummary } from "../../core/answers.ts";
import { duration } from "../../core/format.ts";
import { pathTo, place, setQuery } from "../../core/location.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { Snippet } from "../../parts/copy.tsx";
import { SelectField, TextField } from "../../parts/field.tsx";
import { ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { clientsOf, filledIn, likelyChatModel } from "./guide.ts";

const clients = clientsOf(guide);

/** Pick a client: what to type, with your address, key and model, and a light that turns green when its first request arrives. */
export function SetupPage() {
  const health = useLoaded<{ readonly url: string }>("/health");
  const channels = useLoaded<{ readonly channels: readonly ChannelAnswer[] }>("/channels");
  const models = useMemo(
    () => [...new Set(channels.data.value?.channels.flatMap((channel) => channel.models ?? []))].toSorted(),
    [channels.data.value],
  );
  const chosen = place.value.query.get("client") ?? clients[0]?.name ?? "";
  const client = clients.find(({ name }) => name === chosen) ?? clients[0];
  const ownAddress = useSignal<string | null>(null);
  const key = useSignal("");
  const model = useSignal("");
  const address = ownAddress.value ?? seenFromHere(health.data.value?.url ?? "http://127.0.0.1:4400");
  const values = { address, key: key.value.trim(), model: model.value.trim() === "" ? likelyChatModel(models) : model.value.trim() };
  return (
    <Page
      title="Set up a client"
      about="The key you paste stays in this page."
      actions={
        <a class="button" href={pathTo("keys", {}, { new: "1" })}>
          Create a key
        </a>
      }
    >
      <ErrorNote {...troubleOf(health, channels)} />
      <div class="columns">
        <SelectField
          label="Client"
          name="client"
          value={client?.name ?? ""}
          options={clients.map(({ name }) => [name, name] as const)}
          onChoose={(name) => setQuery({ client: name })}
        />
        <TextField label="Address of the gateway" name="address" value={address} onText={(text) => (ownAddress.value = text)} />
        <TextField
          label="Key"
          name="key"
          type="password"
          autoComplete="off"
          value={key.value}
          onText={(text) => (key.value = text)}
          placeholder="sk-gw_…"
        />
        <TextField
          label="Model"
          name="model"
          value={model.value}
          list="models"
          onText={(text) => (model.value = text)}
          placeholder={likelyChatModel(models)}
        />
      </div>
      <datalist id="models">
        {models.slice(0, 500).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <section class="card stack">
        {client?.blocks.map(({ title, text }, at) => (
          <Snippet key={`${client.name} ${at}`} label={title} text={filledIn(text, values)} />
        ))}
      </section>
      <FirstRequest />
    </Page>
  );
}

/** The gateway may listen on all addresses, or be seen from another machine: then this page's host is a better guess. */
function seenFromHere(url: string): string {
  const parsed = URL.parse(url);
  // A unix socket is not an address for most clients.
  if (parsed === null || !parsed.protocol.startsWith("http")) return url;
  if (["0.0.0.0", "[::]"].includes(parsed.hostname)) parsed.hostname = window.location.hostname;
  return parsed.origin;
}

function FirstRequest() {
  const since = useMemo(() => new Date().toISOString(), []);
  const found = useSignal<RequestSummary | null>(null);
  const loaded = useLoaded<{ readonly receipts: readonly RequestSummary[] }>(
    "/receipts",
    { since, limit: 1 },
    { everyMs: 2000, off: found.value !== null },
  );
  const first = found.value ?? loaded.data.value?.receipts[0] ?? null;
  if (first !== null && found.value === null) queueMicrotask(() => (found.value = first));
  return (
    <section class="note-box" aria-live="polite">
      <span class="row">
        <span class={`light ${first === null ? "" : "on"}`} />
        {first === null ? (
          <span>Waiting for the first request since you opened this page…</span>
        ) : (
          <span>
            It works: <strong>{first.key_name ?? first.key}</strong> asked for <strong>{first.model}</strong>, and{" "}
            {first.channel === null ? "nobody" : first.channel} answered in {duration(first.took_ms)}.
          </span>
        )}
      </span>
      {first !== null && (
        <a class="button small" href={pathTo("request", { id: first.id })}>
          Look at it
        </a>
      )}
    </section>
  );
}
