import { csvOf } from "../../usage/csv.ts";
import type { UsageColumn } from "../../usage/usage-row.ts";
import { usageFigures, usageHeadings, type UsageView } from "../../usage/usage-view.ts";
import { dollars, json, plural, shown } from "../shown-text.ts";
import { whoseCalls } from "../call-filters.ts";
import type { CommandSurroundings } from "../command-context.ts";
import type { Management } from "../management/management.ts";
import { outcomeViewFigures } from "../../manage/receipts/outcome-report.ts";
import { table, type Column } from "../table.ts";
import { columnsText, flatModel, invoiceHeadings, invoiceTable, outcomesText } from "./outcome-tables.ts";
import type { UsageRequest } from "./arguments.ts";

export async function runUsage(request: UsageRequest, management: Management, context: CommandSurroundings): Promise<void> {
  const { terminal } = context;
  const waitingBytes = await management.catchUp();
  if (waitingBytes > 0) {
    terminal.say(`note: ${plural(waitingBytes, "byte")} of receipts are not in the store yet, nor in these figures: try again later.`);
  }
  const { by, since, until, model, channel, about } = request;
  const { key, group } = await whoseCalls(request, management, terminal);
  const asked = { by, since, until, key, group, model, channel };
  switch (about.kind) {
    case "use": {
      const calls = await callsOfGroup(asked, management);
      const rows = await management.usage(asked);
      sayUnlisted(calls, rows, terminal);
      return print(rows, request, usageHeadings(by), () => usageTable(by, rows), terminal);
    }
    case "outcomes": {
      const calls = await callsOfGroup(asked, management);
      const { counted_from: from, rows } = await management.outcomes(asked);
      sayUnlisted(calls, rows, terminal);
      const headings = [
        ...by.flatMap((column) => (column === "key" || column === "group" ? [column, `${column}_name`] : [column])),
        ...outcomeViewFigures,
      ];
      if (from !== null)
        terminal.say(
          `note: how calls ended is counted since ${from.slice(0, 10)}; earlier calls count as calls, failures, tokens and cost alone.`,
        );
      return print(rows, request, headings, () => outcomesText(by, rows), terminal);
    }
    case "comparison": {
      const models = await management.comparison(about.model, about.other, { since, until, group });
      const rows = models.map(flatModel);
      return print(request.as === "json" ? models : rows, request, Object.keys(rows[0] ?? {}), () => columnsText(rows, "model"), terminal);
    }
    case "invoice": {
      const rows = await management.invoice(about.month);
      return print(rows, request, invoiceHeadings, () => invoiceTable(rows), terminal);
    }
  }
}

/**
 * The calls that count for a group, if its keys are asked for; otherwise null. It is read before the rows of the keys, so that a call that
 * ends in between is not taken for one without a row.
 */
async function callsOfGroup(asked: Parameters<Management["usage"]>[0], management: Management): Promise<number | null> {
  if (asked.group === null || !asked.by.includes("key")) return null;
  return callsIn(await management.usage({ ...asked, by: asked.by.filter((column) => column !== "key") }));
}

/** What a group used is summed without its keys, so that only those that it has now can be listed. */
function sayUnlisted(calls: number | null, rows: readonly CountedRow[], terminal: CommandSurroundings["terminal"]): void {
  const listed = callsIn(rows);
  if (calls === null || calls <= listed) return;
  terminal.say(
    `note: the group has ${plural(calls, "call")} in all, and these rows have ${listed}: tokens of issuers, and keys that have left the ` +
      "group, have no rows. For the sum of the group, leave out the key in --by.",
  );
}

type CountedRow = Readonly<Record<string, string | number | null>>;

function callsIn(rows: readonly CountedRow[]): number {
  return rows.reduce((sum, { calls }) => sum + (typeof calls === "number" ? calls : 0), 0);
}

/** The rows as they were asked for. */
function print(
  rows: readonly object[],
  { as }: UsageRequest,
  headings: readonly string[],
  asTable: () => string,
  terminal: CommandSurroundings["terminal"],
): void {
  if (as === "json") return terminal.print(json(rows));
  if (as === "csv")
    return terminal.print(
      csvOf(
        headings,
        rows.map((row) => safeCells(row as UsageView)),
      ).trimEnd(),
    );
  if (rows.length === 0) return terminal.say("No usage is recorded.");
  return terminal.print(asTable());
}

function safeCells(view: UsageView): UsageView {
  return Object.fromEntries(Object.entries(view).map(([name, cell]) => [name, typeof cell === "string" ? shown(cell) : cell]));
}

/** Figures that are zero in every row are left out, except for the most common ones. */
function usageTable(by: readonly UsageColumn[], rows: readonly UsageView[]): string {
  const total = totalOf(rows);
  // A call counts for all groups above its key, so that these rows have no sum.
  const all = rows.length > 1 && by.length > 0 && !by.includes("group") ? [...rows, total] : rows;
  const group = by.map((column, at): Column<UsageView> => ({
    title: column.toUpperCase(),
    cell: (row) => (row === total ? (at === 0 ? "total" : "") : String(row[`${column}_name`] ?? row[column] ?? "-")),
  }));
  const figures = shownFigures.filter(({ always, of }) => always === true || total[of] !== 0);
  return table<UsageView>(
    [
      ...group,
      ...figures.map(({ title, of, cell = String }): Column<UsageView> => {
        const shownFigure = (figure: UsageView[string] | undefined): string => (typeof figure === "number" ? cell(figure) : "unknown");
        return { title, right: true, cell: (row) => shownFigure(row[of]) };
      }),
    ],
    all,
  );
}

interface ShownFigure {
  readonly title: string;
  readonly of: (typeof usageFigures)[number];
  readonly cell?: (figure: number) => string;
  readonly always?: boolean;
}

const shownFigures: readonly ShownFigure[] = [
  { title: "CALLS", of: "calls", always: true },
  { title: "FAILED", of: "failed" },
  { title: "PROMPT", of: "prompt_tokens", always: true },
  { title: "CACHED", of: "cached_tokens" },
  { title: "COMPLETION", of: "completion_tokens", always: true },
  { title: "REASONING", of: "reasoning_tokens" },
  { title: "AUDIO S", of: "audio_seconds", cell: (seconds) => String(Math.round(seconds * 10) / 10) },
  { title: "CHARACTERS", of: "characters" },
  { title: "COST USD", of: "cost_usd", cell: dollars, always: true },
  { title: "ESTIMATED", of: "estimated" },
  { title: "UNCERTAIN", of: "uncertain" },
  { title: "UNPRICED", of: "unpriced" },
];

/** The cost of all is unknown only if that of each is. */
function totalOf(rows: readonly UsageView[]): UsageView {
  const sumOf = (name: string): number | null => {
    const known = rows.map((row) => row[name]).filter((figure) => typeof figure === "number");
    return known.length === 0 ? null : known.reduce((sum, figure) => sum + figure, 0);
  };
  return Object.fromEntries(usageFigures.map((name) => [name, sumOf(name)]));
}
