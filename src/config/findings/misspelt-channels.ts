import type { ConfigFile, LimitsEntry } from "../schema.ts";
import { nearest } from "./nearest.ts";
import { warning, type Finding, type Path } from "./problem.ts";

/**
 * Channels that a key or a budget names may be in the store, which is not known here. But a budget that selects no channel because of a
 * spelling mistake limits nothing, and nobody would notice.
 */
export function misspeltChannels({ channels, groups, keys }: Pick<ConfigFile, "channels" | "groups" | "keys">): Finding[] {
  const known = channels.flatMap(({ name, tags }) => [name, ...(tags ?? [])]);
  const owners = [
    ...groups.flatMap(({ limits, defaults }, at): readonly (readonly [Path, LimitsEntry | undefined])[] => [
      [["groups", at, "limits"], limits],
      [["groups", at, "defaults", "keys"], defaults?.keys],
      [["groups", at, "defaults", "groups"], defaults?.groups],
    ]),
    ...keys.map(({ limits }, at) => [["keys", at, "limits"], limits] as const),
  ];
  const selected = owners.flatMap(([path, limits]) =>
    (limits?.budgets ?? []).map((budget, at) => [[...path, "budgets", at, "channels"], budget.channels ?? []] as const),
  );
  const allowed = keys.map((key, at) => [["keys", at, "channels"], key.channels ?? []] as const);
  return [...selected, ...allowed].flatMap(([path, names]) =>
    names.flatMap((name) => {
      const similar = name.includes("*") || known.includes(name) ? null : nearest(name, known);
      if (similar === null) return [];
      const reason = `no channel of this file has the name or the tag '${name}', so that one of the store is meant`;
      return [warning(path, reason, `write '${similar}' if you mean that of this file`)];
    }),
  );
}
