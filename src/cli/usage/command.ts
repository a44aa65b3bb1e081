import { csvOf } from "../../usage/csv.ts";
import { parsePastMoment } from "../../usage/time-text.ts";
import { knownNanos, type UsageColumn, type UsageRow } from "../../usage/usage-row.ts";
import { usageHeadings, usageView, type UsageView } from "../../usage/usage-view.ts";
import { groupByIdOrName, groupNames, keysWithin } from "../../manage/group-search.ts";
import { keyByIdOrName, keyNames } from "../../manage/key-search.ts";
import { json, money, plural, shown } from "../shown-text.ts";
import type { OpenStore, CommandContext } from "../command-context.ts";
import { table, type Column } from "../table.ts";
import type { UsageRequest } from "./arguments.ts";

export async function runUsage(request: UsageRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { terminal } = context;
  const waitingBytes = await store.catchUp();
  if (waitingBytes > 0) {
    terminal.say(`note: ${plural(waitingBytes, "byte")} of receipts are not in the store yet, nor in these figures: try again later.`);
  }
  const nowMs = context.wallMs();
  const { by, model, channel } = request;
  const group = request.group === null ? null : await groupId(request.group, store, context);
  const rows = await store.storage.receipts.usage({
    by,
    sinceMs: request.since === null ? null : parsePastMoment(request.since, nowMs),
    untilMs: request.until === null ? null : parsePastMoment(request.until, nowMs),
    keyId: request.key === null ? null : await keyId(request.key, store, context),
    ...(group !== null && by.includes("key") ? { keysOf: await keysWithin(store, group) } : { groupId: group }),
    model,
    channel,
  });
  const ids = rows.flatMap(({ group }) => (typeof group.key === "string" ? [group.key] : []));
  const groupIds = rows.flatMap(({ group }) => (typeof group.group === "string" ? [group.group] : []));
  const names = new Map([...(await keyNames(store, ids, namesMax)), ...(groupIds.length === 0 ? [] : await groupNames(store, groupIds))]);
  const views = rows.map((row) => usageView(row, (id) => names.get(id) ?? null));
  switch (request.as) {
    case "json":
      return terminal.print(json(views));
    case "csv":
      return terminal.print(csvOf(usageHeadings(by), views.map(safeCells)).trimEnd());
    case "table":
      if (rows.length === 0) return terminal.say("No usage is recorded.");
      return terminal.print(usageTable(by, rows, names));
  }
}

/** The names of at most this many keys are looked up; the others are shown by their ids. */
const namesMax = 5_000;

function safeCells(view: UsageView): UsageView {
  return Object.fromEntries(Object.entries(view).map(([name, cell]) => [name, typeof cell === "string" ? shown(cell) : cell]));
}

/** Receipts stay when a key is removed from the configuration file, so an unknown key may still have usage. */
async function keyId(idOrName: string, store: OpenStore, context: CommandContext): Promise<string> {
  const known = await keyByIdOrName(store, idOrName);
  if (known !== null) return known.key.id;
  context.terminal.say(
    `note: there is no key ${JSON.stringify(shown(idOrName))} (see sluice keys list); this is the usage recorded under that id.`,
  );
  return idOrName;
}

async function groupId(idOrName: string, store: OpenStore, context: CommandContext): Promise<string> {
  const known = await groupByIdOrName(store, idOrName);
  if (known !== null) return known.group.id;
  context.terminal.say(
    `note: there is no group ${JSON.stringify(shown(idOrName))} (see sluice groups list); this is the usage recorded under that id.`,
  );
  return idOrName;
}

/** Figures that are zero in every row are left out, except for the most common ones. */
function usageTable(by: readonly UsageColumn[], rows: readonly UsageRow[], names: ReadonlyMap<string, string>): string {
  const total = rows.reduce(sum);
  // A call counts for all groups above its key, so that these rows have no sum.
  const all = rows.length > 1 && by.length > 0 && !by.includes("group") ? [...rows, total] : rows;
  const group = by.map((column, at): Column<UsageRow> => ({
    title: column.toUpperCase(),
    cell: (row) => (row === total && all !== rows ? (at === 0 ? "total" : "") : groupCell(row.group[column] ?? null, column, names)),
  }));
  const figures = shownFigures.filter(({ always, of }) => always === true || of(total) !== 0);
  return table<UsageRow>(
    [...group, ...figures.map(({ title, of, cell }): Column<UsageRow> => ({ title, right: true, cell: (row) => cellOf(of(row), cell) }))],
    all,
  );
}

function groupCell(value: string | null, column: UsageColumn, names: ReadonlyMap<string, string>): string {
  if (value === null) return "-";
  return column === "key" || column === "group" ? (names.get(value) ?? value) : value;
}

function cellOf(figure: number | null, cell: Figure["cell"] = String): string {
  return figure === null ? "unknown" : cell(figure);
}

interface Figure {
  readonly title: string;
  readonly of: (row: UsageRow) => number | null;
  readonly cell?: (figure: number) => string;
  readonly always?: boolean;
}

const shownFigures: readonly Figure[] = [
  { title: "CALLS", of: ({ calls }) => calls, always: true },
  { title: "FAILED", of: ({ failedCalls }) => failedCalls },
  { title: "PROMPT", of: ({ promptTokens }) => promptTokens, always: true },
  { title: "CACHED", of: ({ cachedTokens }) => cachedTokens },
  { title: "COMPLETION", of: ({ completionTokens }) => completionTokens, always: true },
  { title: "REASONING", of: ({ reasoningTokens }) => reasoningTokens },
  { title: "AUDIO S", of: ({ audioSeconds }) => audioSeconds, cell: (seconds) => String(Math.round(seconds * 10) / 10) },
  { title: "CHARACTERS", of: ({ characters }) => characters },
  { title: "COST USD", of: knownNanos, cell: money, always: true },
  { title: "ESTIMATED", of: ({ estimatedCalls }) => estimatedCalls },
  { title: "UNCERTAIN", of: ({ uncertainCalls }) => uncertainCalls },
  { title: "UNPRICED", of: ({ unpricedCalls }) => unpricedCalls },
];

function sum(one: UsageRow, other: UsageRow): UsageRow {
  return {
    group: {},
    calls: one.calls + other.calls,
    failedCalls: one.failedCalls + other.failedCalls,
    promptTokens: one.promptTokens + other.promptTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    completionTokens: one.completionTokens + other.completionTokens,
    reasoningTokens: one.reasoningTokens + other.reasoningTokens,
    audioSeconds: one.audioSeconds + other.audioSeconds,
    characters: one.characters + other.characters,
    nanos: one.nanos + other.nanos,
    unpricedCalls: one.unpricedCalls + other.unpricedCalls,
    uncertainCalls: one.uncertainCalls + other.uncertainCalls,
    estimatedCalls: one.estimatedCalls + other.estimatedCalls,
  };
}
