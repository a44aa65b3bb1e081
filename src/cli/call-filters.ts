import type { Command } from "commander";
import type { Management } from "./management/management.ts";
import { line, past } from "./option-values.ts";
import { shown } from "./shown-text.ts";
import type { Terminal } from "./terminal.ts";

/** Which calls a command is about, as it was typed. */
export interface CallFilters {
  readonly since: string | null;
  readonly until: string | null;
  readonly key: string | null;
  readonly group: string | null;
  readonly model: string | null;
  readonly channel: string | null;
}

export type CallFilterOptions = { readonly [Name in keyof CallFilters]?: string };

export function addCallFilters(command: Command): Command {
  return command
    .option("--since <when>", "from this time on: a date, a time, or how long ago, such as 24h or 7d", past)
    .option("--until <when>", "before this time", past)
    .option("--key <key>", "only this key, by id or name", line(200))
    .option("--group <group>", "only calls of keys in this group and below it, by id or name", line(200))
    .option("--model <name>", "only this model, as clients name it", line(512))
    .option("--channel <name>", "only calls that this channel answered", line(200));
}

export function callFiltersOf(options: CallFilterOptions): CallFilters {
  const { since = null, until = null, key = null, group = null, model = null, channel = null } = options;
  return { since, until, key, group, model, channel };
}

/** The ids of the key and the group. Receipts stay when one is removed, so that an unknown one may still have calls, under its id. */
export async function whoseCalls(
  { key, group }: Pick<CallFilters, "key" | "group">,
  management: Management,
  terminal: Pick<Terminal, "say">,
): Promise<Pick<CallFilters, "key" | "group">> {
  const idOf = async (what: "key" | "group", typed: string | null): Promise<string | null> => {
    if (typed === null) return null;
    const known = await management[what](typed);
    if (known !== null) return known.id;
    terminal.say(
      `note: there is no ${what} ${JSON.stringify(shown(typed))} (see sluice ${what}s list); this is what is recorded under that id.`,
    );
    return typed;
  };
  return { key: await idOf("key", key), group: await idOf("group", group) };
}
