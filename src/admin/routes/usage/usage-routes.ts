import { z } from "zod";
import { csvOf } from "../../../usage/csv.ts";
import { readUsageColumns, usageFigures, usageHeadings, usageView } from "../../../usage/usage-view.ts";
import { outcomeMarks } from "../../../usage/call-outcome.ts";
import { receiptStates } from "../../../usage/receipt.ts";
import { usageColumns, type UsageQuery } from "../../../usage/usage-row.ts";
import { groupByIdOrName, keysWithin } from "../../../manage/group-search.ts";
import { keyByIdOrName, keyNames } from "../../../manage/key-search.ts";
import { readSpan, spanQuery } from "../../fields/moment-field.ts";
import { dollarsField, line, pageCursor, pageLimit } from "../../fields/scalars.ts";
import type { FigureBounds } from "../../../gateway/storage.ts";
import { costNanosMax, receiptPage, statusBounds, tookMsMax } from "../../../manage/receipts/receipt-search.ts";
import { namesMax, usageNames } from "../../../manage/receipts/usage-names.ts";
import { shownSummary } from "../../../manage/receipts/receipt-view.ts";
import { receiptSummaryAnswer } from "../../views/receipt-view.ts";
import { invalid, AdminError } from "../../admin-error.ts";
import { route, TextResult, type AdminRoute } from "../../route.ts";
import type { Services } from "../../services.ts";

const figures = Object.fromEntries(usageFigures.map((name) => [name, z.number()])) as Record<(typeof usageFigures)[number], z.ZodNumber>;
const cost = z.number().nullable().describe("The cost of the calls with a known price; null if there is none.");
const text = z.string().nullable().optional();
const row = z.strictObject({
  ...(Object.fromEntries(usageColumns.map((column) => [column, text])) as Record<(typeof usageColumns)[number], typeof text>),
  key_name: text,
  group_name: text,
  ...figures,
  cost_usd: cost,
});

const costField = dollarsField(costNanosMax);

export const callFilters = {
  key: line(200).optional().describe("The id or the name of a key."),
  group: line(200).optional().describe("The id or the name of a group: calls of all keys below it."),
  model: line(512).optional().describe("As clients name it."),
  channel: line(200).optional(),
  ...spanQuery,
};

export const byDescription =
  `Columns, separated by commas: ${usageColumns.join(", ")}. By key, the usage of a group is that of the keys that it has now, without ` +
  "tokens of issuers, which count for the group alone.";

/** Usage and cost, summed and call by call. */
export const usageRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/usage",
    access: "viewer",
    scoped: true,
    summary: "Sums usage and cost, grouped by the columns in `by`. The time range is extended to whole hours.",
    query: z.strictObject({
      by: z.string().max(100).optional().describe(byDescription),
      ...callFilters,
      format: z.enum(["json", "csv"]).default("json"),
    }),
    answer: z.strictObject({ rows: z.array(row) }),
    text: "text/csv",
    handle: async ({ query, services }) => {
      const asked = await groupedQuery(query, services);
      if (asked instanceof AdminError) return asked;
      const found = await services.reports.receipts.usage(asked);
      if (found.length > rowsMax) return tooManyRows;
      const names = await usageNames(services, found);
      const rows = found.map((each) => usageView(each, (id) => names.get(id) ?? null));
      if (query.format === "csv") return new TextResult("text/csv; charset=utf-8", csvOf(usageHeadings(asked.by), rows), "usage.csv");
      return { rows: rows as unknown as z.input<typeof row>[] };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/receipts",
    access: "viewer",
    scoped: true,
    summary:
      "Lists calls, newest first. A page that is not full may be followed by more, if `next` is not null: a filter that few calls match " +
      "is searched in steps.",
    query: z.strictObject({
      ...callFilters,
      state: z.enum(receiptStates).optional(),
      outcome: z.enum(outcomeMarks).optional().describe("Calls of which this was special. Calls from before it was counted are not found."),
      status: z.string().max(3).optional().describe("The status that the client got, such as 429, or 5xx for all that begin alike."),
      min_cost_usd: costField.optional().describe("Calls that cost at least this much. Calls of unknown cost are left out."),
      max_cost_usd: costField.optional(),
      min_took_ms: z.coerce.number().int().min(0).max(tookMsMax).optional().describe("Calls that took at least this long."),
      before: pageCursor.optional(),
      limit: pageLimit,
    }),
    answer: z.strictObject({ receipts: z.array(receiptSummaryAnswer), next: z.string().nullable() }),
    handle: async ({ query, services }) => {
      const filter = await readFilters(query, services);
      if (filter instanceof AdminError) return filter;
      const figures = figuresOf(query);
      if (figures === null)
        return invalid("status", "The parameter 'status' must be a status such as 429, or 5xx for all that begin alike.");
      const { state = null, outcome: mark = null, before = null, limit } = query;
      const { receipts, next } = await receiptPage(services.reports.receipts, { ...filter, state, mark, figures, before, limit });
      const names = await keyNames(
        services,
        receipts.map(({ keyId }) => keyId),
        namesMax,
      );
      return {
        receipts: receipts.map((receipt) => shownSummary(receipt, names.get(receipt.keyId) ?? null)),
        next,
      };
    },
  }),
];

interface Filters {
  readonly keyId: string | null;
  readonly groupId: string | null;
  readonly model: string | null;
  readonly channel: string | null;
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
}

/** An unknown key is taken for an id, because the receipts of a removed key stay. */
export async function readFilters(query: z.output<z.ZodObject<typeof callFilters>>, services: Services): Promise<Filters | AdminError> {
  const span = readSpan(query, services.wallMs());
  if (span instanceof AdminError) return span;
  const keyId = query.key === undefined ? null : ((await keyByIdOrName(services, query.key))?.key.id ?? query.key);
  const groupId = query.group === undefined ? null : ((await groupByIdOrName(services, query.group))?.group.id ?? query.group);
  return { keyId, groupId, model: query.model ?? null, channel: query.channel ?? null, ...span };
}

type GroupedFilters = z.output<z.ZodObject<typeof callFilters>> & { readonly by?: string | undefined };

/** What sums are asked for. By key, the sums of a group are those of the keys that it has now. */
export async function groupedQuery(query: GroupedFilters, services: Services): Promise<UsageQuery | AdminError> {
  const by = readUsageColumns(query.by ?? "");
  if ("unknown" in by) return invalid("by", `The parameter 'by' names an unknown column: use ${usageColumns.join(", ")}.`);
  const filter = await readFilters(query, services);
  if (filter instanceof AdminError) return filter;
  const keysOf = filter.groupId !== null && by.includes("key") ? await keysWithin(services, filter.groupId) : null;
  if (filter.keyId !== null && filter.groupId !== null) return invalid("group", "Give a key or a group, not both.");
  if (by.includes("key") && by.includes("group")) return invalid("by", "What a group used is not known by key: group by one of them.");
  return { by, ...filter, ...(keysOf === null ? {} : { groupId: null, keysOf }) };
}

interface GivenFigures {
  readonly status?: string | undefined;
  readonly min_cost_usd?: number | undefined;
  readonly max_cost_usd?: number | undefined;
  readonly min_took_ms?: number | undefined;
}

/** Null if the status is none. */
function figuresOf({ status, min_cost_usd: nanosMin, max_cost_usd: nanosMax, min_took_ms: tookMsMin }: GivenFigures): FigureBounds | null {
  const statuses = status === undefined ? {} : statusBounds(status);
  if (statuses === null) return null;
  return {
    ...statuses,
    ...(nanosMin === undefined ? {} : { nanosMin }),
    ...(nanosMax === undefined ? {} : { nanosMax }),
    ...(tookMsMin === undefined ? {} : { tookMsMin }),
  };
}

/** Writing more rows at once would delay calls. */
export const rowsMax = 20_000;
export const tooManyRows = new AdminError(
  400,
  "answer_too_large",
  `The answer has more than ${rowsMax} rows: ask for a shorter time range, one key or model, or fewer columns.`,
  "by",
);
