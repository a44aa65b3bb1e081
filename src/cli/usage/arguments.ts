import { InvalidArgumentError } from "commander";
import { usageColumns, type UsageColumn } from "../../usage/usage-row.ts";
import { readUsageColumns } from "../../usage/usage-view.ts";
import { addCallFilters, callFiltersOf, type CallFilterOptions, type CallFilters } from "../call-filters.ts";
import { configOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";

export interface UsageRequest extends CallFilters {
  readonly on: "usage";
  readonly as: "table" | "json" | "csv";
  readonly by: readonly UsageColumn[];
}

export function addUsage({ program, onRequest }: CommandRegistry): void {
  const usage = program
    .command("usage")
    .description("show what was used and what it cost")
    .option("--by <columns>", `group by ${usageColumns.join(", ")}; separate several with commas`, columns);
  addCallFilters(usage)
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
    onRequest(config, { on: "usage", as: json ? "json" : csv ? "csv" : "table", by, ...filters });
  });
}

interface UsageOptions extends CommonOptions, CallFilterOptions {
  readonly csv?: boolean;
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

Days and hours are in UTC, and the time range is extended to whole hours. The cost is the sum of the calls with a known
price; the others are counted as unpriced. If no call has a known price, the cost is unknown (null). Calls with
estimated figures are counted as estimated.
`;
