import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { GroupAnswer, KeyAnswer } from "../../core/answers.ts";
import { ask, mayManageKeys, ownGroup } from "../../core/api.ts";
import { count, money, short } from "../../core/format.ts";
import { limitsText } from "../../core/limits.ts";
import { go, pathTo, place } from "../../core/location.ts";
import { makeTrail } from "../../core/pages.ts";
import { troubleOf, useLoaded } from "../../core/query.ts";
import { useSubmission } from "../../core/submit.ts";
import { stateTone } from "../../core/tones.ts";
import { Budgets } from "../../parts/budgets.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Fact } from "../../parts/fact.tsx";
import { Ago, Moment } from "../../parts/moment.tsx";
import { Badge, ErrorNote } from "../../parts/notice.tsx";
import { LinksOf, Page } from "../../parts/page.tsx";
import { Pager } from "../../parts/pager.tsx";
import { DataTable } from "../../parts/table.tsx";
import type { UsageAnswerRow } from "../usage/usage-rows.ts";
import { GroupForm } from "./group-form.tsx";
import { GroupList } from "./groups.tsx";

/** One group: what it may use, what it has spent, its keys, and the groups below it. */
export function GroupPage() {
  const id = place.value.params["id"] ?? "";
  const path = `/groups/${encodeURIComponent(id)}`;
  const loaded = useLoaded<GroupAnswer>(path);
  const group = loaded.data.value;
  return (
    <Page title={group?.name ?? "Group"} about={<span class="mono">{id}</span>} actions={<LinksOf kind="group" id={id} />}>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {group !== null && (
        <>
          <Budgets path={path} />
          <GroupFacts group={group} />
          {mayManageKeys() && group.source === "store" && group.id !== ownGroup() && (
            <GroupActions group={group} path={path} onChanged={() => loaded.reload()} />
          )}
          <section class="stack">
            <h2>Groups below it</h2>
            <GroupList query={{ parent: group.id }} empty={<p class="muted">None.</p>} />
          </section>
          <GroupKeys id={group.id} />
        </>
      )}
    </Page>
  );
}

function GroupFacts({ group }: { readonly group: GroupAnswer }) {
  return (
    <section class="card">
      <header>
        <h2>
          {group.kind} {group.frozen ? <Badge tone="bad">frozen</Badge> : <Badge tone="good">active</Badge>}
        </h2>
      </header>
      <dl class="facts">
        <Fact name="Together">{limitsText(group.limits)}</Fact>
        <Fact name="Each key">{limitsText(group.defaults.keys)}</Fact>
        <Fact name="Each group below">{limitsText(group.defaults.groups)}</Fact>
        <Fact name="Below">{group.parent === null ? "–" : <a href={pathTo("group", { id: group.parent })}>{group.parent}</a>}</Fact>
        <Fact name="Note">{group.note ?? "–"}</Fact>
        <Fact name="Created">
          <Moment at={group.created_at} />
        </Fact>
        <Fact name="Kept in">{group.source === "file" ? "the configuration file, where it is changed" : "the store"}</Fact>
      </dl>
    </section>
  );
}

interface GroupActionsProps {
  readonly group: GroupAnswer;
  readonly path: string;
  readonly onChanged: () => void;
}

function GroupActions({ group, path, onChanged }: GroupActionsProps) {
  const asks = useSignal<"" | "edit" | "freeze" | "delete">("");
  const close = (): void => {
    asks.value = "";
  };
  const freeze = useSubmission(async (frozen: boolean) => {
    await ask(path, { method: "PATCH", body: { frozen } });
    close();
    onChanged();
  });
  const remove = useSubmission(async () => {
    await ask(path, { method: "DELETE" });
    go(pathTo("groups"));
  });
  return (
    <section class="card">
      <div class="row">
        <button type="button" class="button" onClick={() => (asks.value = "edit")}>
          Change
        </button>
        {group.frozen ? (
          <button type="button" class="button" onClick={() => freeze.run(false)}>
            Unfreeze
          </button>
        ) : (
          <button type="button" class="button" onClick={() => (asks.value = "freeze")}>
            Freeze
          </button>
        )}
        <button type="button" class="button danger" onClick={() => (asks.value = "delete")}>
          Delete
        </button>
        <span class="small muted">While it is frozen, none of its keys works.</span>
      </div>
      {asks.value === "" && <ErrorNote error={freeze.error.value} />}
      {asks.value === "edit" && <GroupForm of={group} parent={null} onClose={close} onDone={onChanged} />}
      {asks.value === "freeze" && (
        <Confirm title={`Freeze ${group.name}?`} action="Freeze it" onClose={close} onConfirm={() => freeze.run(true)}>
          <p>Its keys and those of the groups below it are refused within a second, and their running calls end, until you unfreeze it.</p>
          <ErrorNote error={freeze.error.value} />
        </Confirm>
      )}
      {asks.value === "delete" && (
        <Confirm title={`Delete ${group.name}?`} action="Delete it" onClose={close} onConfirm={() => remove.run(undefined)}>
          <p>Only a group without keys and groups below it can be deleted. What it used stays in the usage.</p>
          <ErrorNote error={remove.error.value} />
        </Confirm>
      )}
    </section>
  );
}

/** The keys of the group and of those below it, with what they used in the last 30 days. */
function GroupKeys({ id }: { readonly id: string }) {
  const trail = useMemo(makeTrail, []);
  const loaded = useLoaded<{ readonly keys: readonly KeyAnswer[]; readonly next: string | null }>("/keys", {
    group: id,
    after: trail.cursor.value,
    limit: 50,
  });
  const used = useLoaded<{ readonly rows: readonly UsageAnswerRow[] }>("/usage", { by: "key", group: id, since: "30d" });
  const byKey = new Map((used.data.value?.rows ?? []).map((row) => [row.key, row]));
  const keys = loaded.data.value?.keys ?? null;
  return (
    <section class="stack">
      <h2>Its keys, and their last 30 days</h2>
      <ErrorNote {...troubleOf(loaded, used)} />
      {keys !== null && keys.length === 0 && <p class="muted">None.</p>}
      {keys !== null && keys.length > 0 && (
        <DataTable
          label="Keys of the group"
          rows={keys}
          keyOf={(key) => key.id}
          columns={[
            { title: "Name", cell: (key) => <a href={pathTo("key", { id: key.id })}>{key.name}</a>, whole: ({ name }) => name },
            { title: "State", cell: ({ state }) => <Badge tone={stateTone(state)}>{state}</Badge> },
            { title: "Limits", cell: ({ limits }) => limitsText(limits), whole: ({ limits }) => limitsText(limits) },
            { title: "Calls", cell: (key) => count(byKey.get(key.id)?.calls ?? 0), isNumber: true },
            { title: "Tokens", cell: (key) => short(tokensOf(byKey.get(key.id))), isNumber: true },
            { title: "Cost", cell: (key) => money(byKey.get(key.id)?.cost_usd ?? 0), isNumber: true },
            { title: "Last used", cell: ({ last_used_at }) => <Ago at={last_used_at} /> },
          ]}
        />
      )}
      <Pager trail={trail} next={loaded.data.value?.next ?? null} />
    </section>
  );
}

function tokensOf(row: UsageAnswerRow | undefined): number {
  return (row?.prompt_tokens ?? 0) + (row?.completion_tokens ?? 0);
}
