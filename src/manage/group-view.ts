import type { GroupKind } from "../keys/group.ts";
import { isoOrNull } from "../usage/time-text.ts";
import type { KnownGroup } from "./group-search.ts";
import { limitsView, type LimitsView } from "./key-view.ts";

/** A group under the field names of the admin API. `--json` of the command line prints the same. */
export interface GroupView {
  readonly id: string;
  readonly name: string;
  readonly source: KnownGroup["source"];
  readonly kind: GroupKind;
  /** The id of the group above it. */
  readonly parent: string | null;
  readonly frozen: boolean;
  readonly note: string | null;
  readonly limits: LimitsView;
  readonly defaults: { readonly keys: LimitsView; readonly groups: LimitsView };
  readonly created_at: string | null;
  readonly frozen_at: string | null;
}

export function groupView(known: KnownGroup): GroupView {
  const { group, source } = known;
  const stored = known.source === "store" ? known.group : null;
  return {
    id: group.id,
    name: group.name,
    source,
    kind: group.kind,
    parent: group.parent,
    frozen: group.frozen,
    note: stored?.note ?? null,
    limits: limitsView(group.limits),
    defaults: { keys: limitsView(group.defaults.keys), groups: limitsView(group.defaults.groups) },
    created_at: isoOrNull(stored?.createdMs ?? null),
    frozen_at: isoOrNull(stored?.frozenMs ?? null),
  };
}
