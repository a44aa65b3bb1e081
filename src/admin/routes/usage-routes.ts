import { z } from "zod";
import { csvOf } from "../../usage/csv.ts";
import { readUsageColumns, usageFigures, usageHeadings, usageView } from "../../usage/usage-view.ts";
import { usageColumns } from "../../usage/usage-row.ts";
import { groupByIdOrName, groupNames } from "../../manage/group-search.ts";
import { keyByIdOrName, keyNames } from "../../manage/key-search.ts";
import { readSpan, spanQuery } from "../fields/moment-field.ts";
import { line, nextOf, pageCursor, pageLimit } from "../fields/scalars.ts";
import { shownSummary } from "../../manage/receipt-view.ts";
import { receiptSummaryAnswer } from "../views/receipt-view.ts";
import { invalid, AdminError } from "../admin-error.ts";
import { route, TextResult, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";

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

const filters = {
  key: line(200).optional().describe("The id or the name of a key."),
  group: line(200).optional().describe("The id or the name of a group: calls of all keys below it."),
  model: line(512).optional().describe("As clients name it."),
  channel: line(200).optional(),
  ...spanQuery,
};

/** Usage and cost, summed and call by call. */
export const usageRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/usage",
    access: "viewer",
    scoped: true,
    summary: "Sums usage and cost, grouped by the columns in `by`. The time range is extended to whole hours.",
    query: z.strictObject({
      by: z
        .string()
        .max(100)
        .optional()
        .describe(`Columns, separated by commas: ${usageColumns.join(", ")}.`),
      ...filters,
      format: z.enum(["json", "csv"]).default("json"),
    }),
    answer: z.strictObject({ rows: z.array(row) }),
    text: "text/csv",
    handle: async ({ query, services }) => {
      const by = readUsageColumns(query.by ?? "");
      if ("unknown" in by) return invalid("by", `The parameter 'by' names an unknown column: use ${usageColumns.join(", ")}.`);
      const filter = await readFilters(query, services);
      if (filter instanceof AdminError) return filter;
      const found = await services.reports.receipts.usage({ by, ...filter });
      if (found.length > rowsMax) return tooMany;
      const names = new Map([
        ...(await keyNames(
          services,
          found.flatMap(({ group }) => group.key ?? []),
          namesMax,
        )),
        ...(by.includes("group")
          ? await groupNames(
              services,
              found.flatMap(({ group }) => group.group ?? []),
            )
          : []),
      ]);
      const rows = found.map((each) => usageView(each, (id) => names.get(id) ?? null));
      if (query.format === "csv") return new TextResult("text/csv; charset=utf-8", csvOf(usageHeadings(by), rows), "usage.csv");
      return { rows: rows as unknown as z.input<typeof row>[] };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/receipts",
    access: "viewer",
    scoped: true,
    summary: "Lists calls, newest first.",
    query: z.strictObject({
      ...filters,
      state: z.enum(["complete", "failed", "interrupted", "abandoned", "unknown"]).optional(),
      before: pageCursor.optional(),
      limit: pageLimit,
    }),
    answer: z.strictObject({ receipts: z.array(receiptSummaryAnswer), next: z.string().nullable() }),
    handle: async ({ query, services }) => {
      const filter = await readFilters(query, services);
      if (filter instanceof AdminError) return filter;
      const { state = null, before = null, limit } = query;
      const receipts = await services.reports.receipts.list({ ...filter, state, before, limit });
      const names = await keyNames(
        services,
        receipts.map(({ keyId }) => keyId),
        namesMax,
      );
      return {
        receipts: receipts.map((receipt) => shownSummary(receipt, names.get(receipt.keyId) ?? null)),
        next: nextOf(receipts, limit, ({ id }) => id),
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
async function readFilters(query: z.output<z.ZodObject<typeof filters>>, services: Services): Promise<Filters | AdminError> {
  const span = readSpan(query, services.wallMs());
  if (span instanceof AdminError) return span;
  const keyId = query.key === undefined ? null : ((await keyByIdOrName(services, query.key))?.key.id ?? query.key);
  const groupId = query.group === undefined ? null : ((await groupByIdOrName(services, query.group))?.group.id ?? query.group);
  if (keyId !== null && groupId !== null) return invalid("group", "What a group used is not known by key: give a key or a group.");
  return { keyId, groupId, model: query.model ?? null, channel: query.channel ?? null, ...span };
}

/** The names of at most this many keys are looked up. */
const namesMax = 2_000;

/** Writing more rows at once would delay calls. */
const rowsMax = 20_000;
const tooMany = new AdminError(
  400,
  "answer_too_large",
  `The answer has more than ${rowsMax} rows: ask for a shorter time range, one key or model, or fewer columns.`,
  "by",
);
