import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { KeyAnswer } from "../../core/answers.ts";
import { mayManageKeys } from "../../core/api.ts";
import { pathTo, place, setQuery } from "../../core/location.ts";
import { makeTrail } from "../../core/pages.ts";
import { useLoaded } from "../../core/query.ts";
import { stateTone } from "../../core/tones.ts";
import { SearchField, SelectField } from "../../parts/field.tsx";
import { Ago } from "../../parts/moment.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Pager } from "../../parts/pager.tsx";
import { DataTable, type TableColumn } from "../../parts/table.tsx";
import { CreateKey } from "./create-key.tsx";
import { limitsText } from "../../core/limits.ts";

/** What clients send, and what each of them may do. */
export function KeysPage() {
  const { query } = place.value;
  const search = query.get("search") ?? "";
  const revoked = query.get("revoked") ?? "";
  const trail = useMemo(makeTrail, [search, revoked]);
  const loaded = useLoaded<KeyList>("/keys", { search, revoked, after: trail.cursor.value, limit: 50 });
  const creates = useSignal(query.get("new") === "1");
  const keys = loaded.data.value?.keys ?? null;
  const create = mayManageKeys() && (
    <button type="button" class="button main" onClick={() => (creates.value = true)}>
      Create a key
    </button>
  );
  return (
    <Page title="Keys" about="What clients send, and what each may use and spend." actions={create}>
      <search class="filters">
        <SearchField value={search} placeholder="Name, owner, note or id" />
        <SelectField
          label="Show"
          name="revoked"
          value={revoked}
          options={[
            ["", "Keys in use"],
            ["true", "Revoked keys as well"],
          ]}
          onChoose={(value) => setQuery({ revoked: value })}
        />
      </search>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {keys !== null && keys.length === 0 && (
        <EmptyState title={search === "" ? "No key yet" : "No key matches"}>
          <p>
            {search === ""
              ? "A client needs a key to use the gateway."
              : "The search looks for a part of a name, an owner, a note or an id."}
          </p>
          {search === "" && create}
        </EmptyState>
      )}
      {keys !== null && keys.length > 0 && <DataTable label="Keys" columns={columns} rows={keys} keyOf={({ id }) => id} />}
      <Pager trail={trail} next={loaded.data.value?.next ?? null} />
      {creates.value && <CreateKey onClose={() => (creates.value = false)} onCreated={() => loaded.reload()} />}
    </Page>
  );
}

interface KeyList {
  readonly keys: readonly KeyAnswer[];
  readonly next: string | null;
}

const columns: readonly TableColumn<KeyAnswer>[] = [
  { title: "Name", cell: ({ id, name }) => <a href={pathTo("key", { id })}>{name}</a>, whole: ({ name }) => name },
  { title: "State", cell: ({ state }) => <Badge tone={stateTone(state)}>{state}</Badge> },
  { title: "Owner", cell: ({ owner }) => owner ?? <span class="muted">–</span>, whole: ({ owner }) => owner ?? "" },
  {
    title: "Models",
    cell: ({ models }) => (models === null ? <span class="muted">all</span> : models.join(", ")),
    whole: ({ models }) => (models ?? ["all"]).join(", "),
  },
  { title: "Limits", cell: ({ limits }) => limitsText(limits), whole: ({ limits }) => limitsText(limits) },
  { title: "Last used", cell: ({ last_used_at }) => <Ago at={last_used_at} /> },
  { title: "Kept in", cell: ({ source }) => (source === "file" ? "the file" : "the store") },
];
