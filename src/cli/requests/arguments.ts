import { InvalidArgumentError } from "commander";
import type { FigureBounds } from "../../gateway/storage.ts";
import { costNanosMax, statusBounds, tookMsMax } from "../../manage/receipts/receipt-search.ts";
import { receiptStates, type Receipt } from "../../usage/receipt.ts";
import { configOption, jsonOption, type CommandRegistry, type CommonOptions } from "../command-registry.ts";
import { choice, dollars, line, past, wholeNumber } from "../option-values.ts";

/** Lists calls, newest first. */
export interface RequestsRequest {
  readonly on: "requests";
  readonly json: boolean;
  readonly since: string | null;
  readonly until: string | null;
  readonly key: string | null;
  readonly group: string | null;
  readonly model: string | null;
  readonly channel: string | null;
  readonly state: Receipt["state"] | null;
  readonly figures: FigureBounds;
  readonly limit: number;
}

export function addRequests({ program, onRequest }: CommandRegistry): void {
  program
    .command("requests")
    .description("list calls, newest first")
    .option("--since <when>", "from this time on: a date, a time, or how long ago, such as 24h or 7d", past)
    .option("--until <when>", "before this time", past)
    .option("--key <key>", "only this key, by id or name", line(200))
    .option("--group <group>", "only calls of keys in this group and below it, by id or name", line(200))
    .option("--model <name>", "only this model, as clients name it", line(512))
    .option("--channel <name>", "only answers of this channel", line(200))
    .option("--state <state>", `only this outcome: ${receiptStates.join(", ")}`, choice(receiptStates))
    .option("--status <status>", "only this status, such as 429, or 5xx for all that begin alike", status)
    .option("--min-cost <dollars>", "only calls that cost at least this much", dollars(costNanosMax))
    .option("--max-cost <dollars>", "only calls that cost at most this much", dollars(costNanosMax))
    .option("--min-seconds <seconds>", "only calls that took at least this long", wholeNumber(0, tookMsMax / 1000))
    .option("--limit <n>", "how many to list at most (default: 50)", wholeNumber(1, 100_000))
    .option(...jsonOption)
    .option(...configOption)
    .addHelpText("after", requestsExamples)
    .action((options: RequestsOptions) => {
      const { config, json = false, since = null, until = null, key = null, group = null, model = null, channel = null } = options;
      const { state = null, limit = 50 } = options;
      onRequest(config, { on: "requests", json, since, until, key, group, model, channel, state, figures: figuresOf(options), limit });
    });
}

interface RequestsOptions extends CommonOptions {
  readonly since?: string;
  readonly until?: string;
  readonly key?: string;
  readonly group?: string;
  readonly model?: string;
  readonly channel?: string;
  readonly state?: Receipt["state"];
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
  $ sluice requests --state interrupted --json | jq .[].request_id

sluice explain ID tells what happened to one of them. Prompts and answers are not stored.
`;
