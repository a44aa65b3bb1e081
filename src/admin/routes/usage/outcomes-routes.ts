import { z } from "zod";
import { countedFrom, invoiceRows, modelRows, monthSpan, outcomeRows } from "../../../manage/receipts/outcome-report.ts";
import { isoMoment } from "../../../usage/time-text.ts";
import { usageColumns } from "../../../usage/usage-row.ts";
import { invalid, AdminError } from "../../admin-error.ts";
import { spanQuery } from "../../fields/moment-field.ts";
import { line, moment } from "../../fields/scalars.ts";
import { route, type AdminRoute } from "../../route.ts";
import { byDescription, callFilters, groupedQuery, readFilters, rowsMax, tooManyRows } from "./usage-routes.ts";

const money = z.number().nullable();
const text = z.string().nullable().optional();

export const outcomeAnswer = z.strictObject({
  calls: z.number(),
  failed: z.number().describe("All that were not complete, with those that broke off, that the client left and that died with a process."),
  truncated: z.number().describe("Answers that were as long as they may be."),
  refused: z.number().describe("The model or its provider refused: instead of an answer, or within one."),
  interrupted: z.number().describe("Answers that broke off, and that no other channel went on with."),
  abandoned: z.number().describe("The client left."),
  unknown: z.number().describe("The process died during the call."),
  failed_over: z.number().describe("Complete calls that another channel answered after one had failed."),
  retried: z.number().describe("Complete calls that the same channel answered after it had failed."),
  rescued: z.number().describe("Answers that broke off and that another attempt went on with."),
  rescue_failed: z.number(),
  hedges: z.number().describe("Attempts that were started because another one was slow."),
  hedges_won: z.number().describe("Those of them that answered."),
  extra_attempts: z.number().describe("Attempts that would not have been made without failover, hedging and rescue."),
  extra_tokens: z.number().describe("What those used, in and out, as far as it is known."),
  failover_usd: z.number().describe("The known cost of attempts that failed before another one answered."),
  hedge_usd: z.number().describe("The known cost of attempts that lost against a quicker one."),
  rescue_usd: z.number().describe("The known cost of attempts that went on with a broken answer."),
  prompt_tokens: z.number(),
  cached_tokens: z.number().describe("Those of the prompt tokens that came from caches of the upstreams."),
  completion_tokens: z.number(),
  cost_usd: money.describe("The known part of the cost; null if nothing is known."),
  cache_saved_usd: z
    .number()
    .describe("What caches saved, less what filling them cost, for calls whose price is known. It may be negative."),
  unpriced: z.number().describe("Calls without a price, which all amounts leave out."),
});

const row = z.strictObject({
  ...(Object.fromEntries(usageColumns.map((column) => [column, text])) as Record<(typeof usageColumns)[number], typeof text>),
  key_name: text,
  group_name: text,
  ...outcomeAnswer.shape,
});

const times = z
  .strictObject({ p50_ms: z.number(), p95_ms: z.number(), calls: z.int() })
  .nullable()
  .describe("From buckets, so that they are approximate, and at most 120,000; null if there were none.");

export const comparedModelAnswer = z.strictObject({
  model: z.string(),
  ...outcomeAnswer.shape,
  cost_per_call_usd: money.describe("Of the calls with a price."),
  cost_per_1k_output_usd: money.describe("Null if some calls have no price."),
  first_content: times,
  took: times,
});

export const invoiceRowAnswer = z.strictObject({
  channel: z.string().nullable().describe("Null for calls during which the process died."),
  model: z.string().nullable().describe("The upstream's name."),
  attempts: z.number(),
  answered: z.number(),
  prompt_tokens: z.number(),
  cached_tokens: z.number(),
  completion_tokens: z.number(),
  reasoning_tokens: z.number(),
  audio_seconds: z.number(),
  characters: z.number(),
  cost_usd: money,
  unpriced: z.number().describe("Attempts without a price, which the cost leaves out."),
  uncertain: z.number().describe("Attempts that may have been charged without being reported."),
  estimated: z.number().describe("Attempts whose figures are estimates."),
});

const counted = moment
  .nullable()
  .describe(
    "The first day that is counted; null if there is none. Earlier calls count in `calls`, `failed`, the tokens and the cost alone.",
  );

/** How calls ended, and what that saved and cost; two models side by side; what an invoice should say. */
export const outcomesRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/outcomes",
    access: "viewer",
    scoped: true,
    summary:
      "Counts how calls ended and what failover, hedging, rescue and caches saved and cost, grouped by the columns in `by`. " +
      "The time range is extended to whole hours.",
    query: z.strictObject({
      by: z.string().max(100).optional().describe(byDescription),
      ...callFilters,
    }),
    answer: z.strictObject({ counted_from: counted, rows: z.array(row) }),
    handle: async ({ query, services }) => {
      const asked = await groupedQuery(query, services);
      if (asked instanceof AdminError) return asked;
      const rows = await outcomeRows(services, asked);
      if (rows.length > rowsMax) return tooManyRows;
      return { counted_from: await countedFrom(services), rows: rows as unknown as z.input<typeof row>[] };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/comparison",
    access: "viewer",
    scoped: true,
    summary: "Compares two models over the same span: errors, times, tokens and cost.",
    query: z.strictObject({
      model: line(512).optional().describe("As clients name it. Required."),
      other: line(512).optional().describe("The model to compare it with. Required."),
      group: callFilters.group,
      ...spanQuery,
    }),
    answer: z.strictObject({
      counted_from: counted,
      models: z.array(comparedModelAnswer),
    }),
    handle: async ({ query, services }) => {
      const { model, other } = query;
      if (model === undefined) return invalid("model", "The parameter 'model' is required: name one of the two models.");
      if (other === undefined) return invalid("other", "The parameter 'other' is required: name the model to compare with.");
      const filter = await readFilters(query, services);
      if (filter instanceof AdminError) return filter;
      return { counted_from: await countedFrom(services), models: await modelRows(services, [model, other], filter) };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/invoice",
    access: "viewer",
    summary:
      "Shows what each channel used of each model of its upstream in a calendar month (UTC), over all attempts, answered or not, to be compared with an invoice.",
    query: z.strictObject({ month: z.string().max(7).optional().describe("Such as 2027-01. Without it, the present one.") }),
    answer: z.strictObject({
      from_at: moment,
      to_at: moment,
      counted_from: counted,
      rows: z.array(invoiceRowAnswer),
    }),
    handle: async ({ query: { month }, services }) => {
      const span = monthSpan(month ?? isoMoment(services.wallMs()).slice(0, 7));
      if (span === null) return invalid("month", "The parameter 'month' must be a month such as 2027-01.");
      return { ...(await invoiceRows(services, span)), counted_from: await countedFrom(services) };
    },
  }),
];
