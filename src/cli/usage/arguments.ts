import { InvalidArgumentError, type Command } from "commander";
import { monthSpan } from "../../manage/receipts/outcome-report.ts";
import { usageColumns, type UsageColumn } from "../../usage/usage-row.ts";
import { readUsageColumns } from "../../usage/usage-view.ts";
import { addCallFilters, callFiltersOf, type CallFilterOptions, type CallFilters } from "../call-filters.ts";
import { configOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { line } from "../option-values.ts";

export interface UsageRequest extends CallFilters {
  readonly on: "usage";
  readonly as: "table" | "json" | "csv";
  readonly by: readonly UsageColumn[];
  readonly about: UsageSubject;
}

/** What the command is asked about: what was used, how calls ended, another model beside the one of the filter, or the invoice of a month. */
export type UsageSubject =
  | { readonly kind: "use" }
  | { readonly kind: "outcomes" }
  | { readonly kind: "comparison"; readonly model: string; readonly other: string }
  | { readonly kind: "invoice"; readonly month: string };

export function addUsage({ program, onRequest }: CommandRegistry): void {
  const usage = program
    .command("usage")
    .description("show what was used and what it cost")
    .option("--by <columns>", `group by ${usageColumns.join(", ")}; separate several with commas`, columns);
  addCallFilters(usage)
    .option("--outcomes", "how calls ended, and what failover, hedging, rescue and caches saved and cost")
    .option("--against <model>", "compare the model of --model with this one", line(512))
    .option("--invoice <month>", "what each channel used of each model of its upstream in a month such as 2027-01 (UTC)", month)
    .option("--json", "print rows as JSON")
    .option("--csv", "print rows as CSV")
    .option(...configOption)
    .addHelpText("after", usageExamples);
  usage.action((options: UsageOptions) => {
    const { config, json = false, csv = false, by = [] } = options;
    if (json && csv) usage.error("error: --json and --csv are both given: choose one");
    const filters = callFiltersOf(options);
    const { key, group } = filters;
    if (group !== null && key !== null) usage.error("error: --key and --group are both given: choose one");
    if (by.includes("group") && (key !== null || by.includes("key")))
      usage.error("error: what a group used is not known by key: group by one of them");
    onRequest(config, { on: "usage", as: json ? "json" : csv ? "csv" : "table", by, about: subjectOf(options, usage), ...filters });
  });
}

function subjectOf({ outcomes = false, against, invoice, by = [], ...filters }: UsageOptions, usage: Command): UsageSubject {
  if ([outcomes, against !== undefined, invoice !== undefined].filter(Boolean).length > 1)
    usage.error("error: --outcomes, --against and --invoice are about different things: choose one");
  if (invoice !== undefined) {
    const { key, group, model, channel, since, until } = filters;
    if (by.length > 0 || (key ?? group ?? model ?? channel ?? since ?? until) !== undefined)
      usage.error("error: --invoice is about all calls of its month: leave out --by and the filters");
    return { kind: "invoice", month: invoice };
  }
  if (against === undefined) return { kind: outcomes ? "outcomes" : "use" };
  const { model } = filters;
  if (model === undefined) usage.error("error: --against compares two models: name the other one with --model");
  if (by.length > 0 || (filters.key ?? filters.channel) !== undefined)
    usage.error("error: models are compared over all keys and channels: leave out --by, --key and --channel");
  return { kind: "comparison", model, other: against };
}

function month(text: string): string {
  if (monthSpan(text) === null) throw new InvalidArgumentError("Give a month such as 2027-01.");
  return text;
}

interface UsageOptions extends CommonOptions, CallFilterOptions {
  readonly csv?: boolean;
  readonly outcomes?: boolean;
  readonly against?: string;
  readonly invoice?: string;
  readonly by?: readonly UsageColumn[];
}

function columns(text: string, before: readonly UsageColumn[] = []): readonly UsageColumn[] {
  const read = readUsageColumns(text);
  if ("unknown" in read) throw new InvalidArgumentError(`Give any of ${usageColumns.join(", ")}.`);
  return [...new Set([...before, ...read])];
}

const usageExamples = `
Examples:
  $ sluice usage                                       the sum of everything
  $ sluice usage --since 24h --by key,model
  $ sluice usage --since 2027-01-01 --until 2027-02-01 --by day --csv
  $ sluice usage --json --by key,model,channel,day --since 7d
  $ sluice usage --key laptop --by hour --since 24h
  $ sluice usage --by group --since 7d
  $ sluice usage --group web --by model,day
  $ sluice usage --group web --by key                  of the keys that it has now
  $ sluice usage --outcomes --by model --since 7d      failover, hedging, rescue, caches, truncated and refused answers
  $ sluice usage --model old --against new --since 7d  two models side by side
  $ sluice usage --invoice 2027-01                     what the providers should charge for that month

Days and hours are in UTC, and the time range is extended to whole hours. The cost is the sum of the calls with a known
price; the others are counted as unpriced. If no call has a known price, the cost is unknown (null). Calls with
estimated figures are counted as estimated. Tokens of issuers count for their group, and are not among its keys.
`;
