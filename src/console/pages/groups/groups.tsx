import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { ListedGroup } from "../../core/answers.ts";
import { mayManageKeys, ownGroup } from "../../core/api.ts";
import { limitsText } from "../../core/limits.ts";
import { pathTo, place } from "../../core/location.ts";
import { makeTrail } from "../../core/pages.ts";
import { useLoaded } from "../../core/query.ts";
import { SearchField } from "../../parts/field.tsx";
import { Badge, EmptyState, ErrorNote } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Pager } from "../../parts/pager.tsx";
import { GroupForm } from "./group-form.tsx";

/** Organisations, teams and projects: what their keys may use together. */
export function GroupsPage() {
  const search = place.value.query.get("search") ?? "";
  const creates = useSignal(false);
  // A new list for each change, so that open branches show it too.
  const version = useSignal(0);
  const create = mayManageKeys() && (
    <button type="button" class="button main" onClick={() => (creates.value = true)}>
      Create a group
    </button>
  );
  return (
    <Page title="Groups" about="Organisations, teams and projects: what their keys may use and spend together." actions={create}>
      <search class="filters">
        <SearchField value={search} placeholder="Name or id" />
      </search>
      <GroupList
        key={`${search} ${version.value}`}
        query={search === "" ? { top: "true" } : { search }}
        empty={
          <EmptyState title={search === "" ? "No group yet" : "No group matches"}>
            <p>{search === "" ? "A group limits what its keys use together." : "The search looks for a part of a name or an id."}</p>
            {search === "" && create}
          </EmptyState>
        }
      />
      {creates.value && (
        <GroupForm of={null} parent={ownGroup()} onClose={() => (creates.value = false)} onDone={() => (version.value += 1)} />
      )}
    </Page>
  );
}

/** Groups of one level. Those below one of them are loaded when it is opened. */
export function GroupList({ query, empty = null }: GroupListProps) {
  const trail = useMemo(makeTrail, []);
  const loaded = useLoaded<{ readonly groups: readonly ListedGroup[]; readonly next: string | null }>("/groups", {
    ...query,
    after: trail.cursor.value,
    limit: 50,
  });
  const groups = loaded.data.value?.groups ?? null;
  return (
    <>
      <ErrorNote error={loaded.error.value} onRetry={() => loaded.reload()} />
      {groups !== null && groups.length === 0 && empty}
      {groups !== null && groups.length > 0 && (
        <ul class="tree">
          {groups.map((group) => (
            <GroupBranch key={group.id} group={group} />
          ))}
        </ul>
      )}
      <Pager trail={trail} next={loaded.data.value?.next ?? null} />
    </>
  );
}

interface GroupListProps {
  readonly query: Readonly<Record<string, string>>;
  readonly empty?: ComponentChildren;
}

function GroupBranch({ group }: { readonly group: ListedGroup }) {
  const isOpen = useSignal(false);
  return (
    <li>
      <div class="row">
        <a href={pathTo("group", { id: group.id })}>
          <strong>{group.name}</strong>
        </a>
        <span class="muted">{group.kind}</span>
        {group.frozen && <Badge tone="bad">frozen</Badge>}
        {group.source === "file" && <Badge>in the file</Badge>}
        <span class="small muted">{limitsText(group.limits) === "none" ? "" : limitsText(group.limits)}</span>
      </div>
      {group.children > 0 && (
        <details onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
          <summary>
            {group.children} {group.children === 1 ? "group" : "groups"} below {group.name}
          </summary>
          {isOpen.value && <GroupList query={{ parent: group.id }} />}
        </details>
      )}
    </li>
  );
}
