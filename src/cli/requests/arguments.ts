import { InvalidArgumentError } from "commander";
import type { FigureBounds } from "../../gateway/storage.ts";
import { costNanosMax, statusBounds, tookMsMax } from "../../manage/receipts/receipt-search.ts";
import { outcomeMarks, type OutcomeMark } from "../../usage/call-outcome.ts";
import { receiptStates, type Receipt } from "../../usage/receipt.ts";
import { addCallFilters, callFiltersOf, type CallFilterOptions, type CallFilters } from "../call-filters.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { choice, dollars, wholeNumber } from "../option-values.ts";

/** Lists calls, newest first. */
export interface RequestsRequest extends CallFilters {
  readonly on: "requests";
  readonly json: boolean;
  readonly state: Receipt["state"] | null;
  readonly mark: OutcomeMark | null;
  readonly figures: FigureBounds;
  readonly limit: number;
}

export function addRequests({ program, onRequest }: CommandRegistry): void {
  addCallFilters(program.command("requests").description("list calls, newest first"))
    .option("--state <state>", `only this outcome: ${receiptStates.join(", ")}`, choice(receiptStates))
    .option("--outcome <what>", `only calls that were ${outcomeMarks.join(", ")}`, choice(outcomeMarks))
    .option("--status <status>", "only this status, such as 429, or 5xx for all that begin alike", status)
    .option("--min-cost <dollars>", "only calls that cost at least this much", dollars(costNanosMax))
    .option("--max-cost <dollars>", "only calls that cost at most this much", dollars(costNanosMax))
    .option("--min-seconds <seconds>", "only calls that took at least this long", wholeNumber(0, tookMsMax / 1000))
    .option("--limit <n>", "how many to list at most (default: 50)", wholeNumber(1, 100_000))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", requestsExamples)
    .action((options: RequestsOptions) => {
      const { config, json = false, state = null, outcome: mark = null, limit = 50 } = options;
      onRequest(config, { on: "requests", json, ...callFiltersOf(options), state, mark, figures: figuresOf(options), limit });
    });
}

interface RequestsOptions extends CommonOptions, CallFilterOptions {
  readonly state?: Receipt["state"];
  readonly outcome?: OutcomeMark;
  readonly status?: FigureBounds;
  readonly minCost?: number;
  readonly maxCost?: number;
  readonly minSeconds?: number;
  readonly limit?: number;
}

function figuresOf({ status = {}, minCost, maxCost, minSeconds }: RequestsOptions): FigureBounds {
  return {
    ...status,
    ...(minCost === undefined ? {} : { nanosMin: minCost }),
    ...(maxCost === undefined ? {} : { nanosMax: maxCost }),
    ...(minSeconds === undefined ? {} : { tookMsMin: minSeconds * 1000 }),
  };
}

function status(text: string): FigureBounds {
  const bounds = statusBounds(text);
  if (bounds === null) throw new InvalidArgumentError("Give a status such as 429, or 5xx for all that begin alike.");
  return bounds;
}

const requestsExamples = `
Examples:
  $ sluice requests --since 1h --status 5xx
  $ sluice requests --key laptop --min-cost 0.50
  $ sluice requests --channel backup --min-seconds 30 --since 24h
  $ sluice requests --outcome rescued --since 7d
  $ sluice requests --state interrupted --json | jq .[].request_id

sluice explain ID tells what happened to one of them. Prompts and answers are not stored.
`;
