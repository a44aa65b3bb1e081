import { InvalidArgumentError } from "commander";
import { usageColumns, type UsageColumn } from "../../usage/usage-row.ts";
import { readUsageColumns } from "../../usage/usage-view.ts";
import { configOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { line, past } from "../option-values.ts";

export interface UsageRequest {
  readonly on: "usage";
  readonly as: "table" | "json" | "csv";
  readonly by: readonly UsageColumn[];
  readonly since: string | null;
  readonly until: string | null;
  readonly key: string | null;
  readonly group: string | null;
  readonly model: string | null;
  readonly channel: string | null;
}

export function addUsage({ program, onRequest }: CommandRegistry): void {
  const usage = program
    .command("usage")
    .description("show what was used and what it cost")
    .option("--by <columns>", `group by ${usageColumns.join(", ")}; separate several with commas`, columns)
    .option("--since <when>", "from this time on: a date, a time, or how long ago, such as 24h or 7d", past)
    .option("--until <when>", "before this time", past)
    .option("--key <key>", "only this key, by id or name", line(200))
    .option("--group <group>", "only calls of keys in this group and below it, by id or name", line(200))
    .option("--model <name>", "only this model, as clients name it", line(512))
    .option("--channel <name>", "only this channel", line(200))
    .option("--json", "print rows as JSON")
    .option("--csv", "print rows as CSV")
    .option(...configOption)
    .addHelpText("after", usageExamples);
  usage.action((options: UsageOptions) => {
    const { config, json = false, csv = false, by = [] } = options;
    if (json && csv) usage.error("error: --json and --csv are both given: choose one");
    const { since = null, until = null, key = null, group = null, model = null, channel = null } = options;
    if (group !== null && key !== null) usage.error("error: --key and --group are both given: choose one");
    if (by.includes("group") && (key !== null || by.includes("key")))
      usage.error("error: what a group used is not known by key: group by one of them");
    onRequest(config, { on: "usage", as: json ? "json" : csv ? "csv" : "table", by, since, until, key, group, model, channel });
  });
}

interface UsageOptions extends CommonOptions {
  readonly csv?: boolean;
  readonly by?: readonly UsageColumn[];
  readonly since?: string;
  readonly until?: string;
  readonly key?: string;
  readonly group?: string;
  readonly model?: string;
  readonly channel?: string;
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
