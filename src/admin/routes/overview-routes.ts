import { z } from "zod";
import { StorageError } from "../../gateway/storage.ts";
import { groupNames } from "../../manage/group-search.ts";
import type { BudgetFacts } from "../../manage/problems/own-budgets.ts";
import { budgetProblems, problemsOf, type BudgetFact, type GatewayProblem } from "../../manage/problems/problems.ts";
import { keyNames } from "../../manage/key-search.ts";
import { isoOrNull } from "../../usage/time-text.ts";
import { moment } from "../fields/scalars.ts";
import { route, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";
import { figuresAnswer, firstContentAnswer, overviewOf, spans } from "../views/overview-view.ts";

const spanNames = Object.keys(spans) as readonly (keyof typeof spans)[];

/** The state of the gateway on one page: rates, money, errors, latencies, and what is wrong now. */
export const overviewRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/overview",
    access: "viewer",
    summary:
      "Shows calls, errors, tokens, cost and times to first content over a span, compared with the span before. An hour is counted by this gateway since its start; longer spans come from the sums of the store, and so do times to first content where this gateway has not run for an hour.",
    query: z.strictObject({ span: z.enum(spanNames).default("24h") }),
    answer: z.strictObject({
      span: z.enum(spanNames),
      from_at: moment,
      to_at: moment,
      totals: figuresAnswer,
      before: figuresAnswer.nullable().describe("The span of the same length before; null if it is not known."),
      series: z.array(figuresAnswer.extend({ at: moment })).describe("By minute, hour or day. What has no calls is left out."),
      first_content: firstContentAnswer
        .nullable()
        .describe(
          "Times to first content of the streams of the span, from buckets, so that they are approximate; null if there were none.",
        ),
      first_content_before: firstContentAnswer.nullable().describe("Of the span before; null if it is not known."),
      by_operation: z.array(z.strictObject({ operation: z.string(), calls: z.number(), failed: z.number() })),
      now: z.strictObject({
        running: z.int(),
        calls_per_minute: z
          .number()
          .describe("The mean of the last five to six minutes, the present one included, or since the start if that was later."),
        since_at: moment.nullable().describe("Since when this gateway counts by the minute; null if it does not, because metrics are off."),
      }),
    }),
    handle: ({ query: { span }, services }) => overviewOf(span, services),
  }),
  route({
    method: "GET",
    path: "/admin/api/problems",
    access: "viewer",
    scoped: true,
    summary:
      "Lists what is wrong now, the worst first, each with its next step. Administrators of a group see the budgets of their keys and groups alone, as of the last minute.",
    answer: z.strictObject({
      problems: z.array(
        z.strictObject({
          severity: z.enum(["critical", "warning"]),
          kind: z.string(),
          subject: z.string().nullable().describe("The name of a channel, or the id of a key or a group."),
          message: z.string(),
          next: z.string(),
          until_at: moment.nullable(),
        }),
      ),
      complete: z.boolean().describe("False if more keys and groups have budgets than were looked at. `standing` shows those of each."),
    }),
    handle: async ({ services }) => {
      const { scope } = services;
      const { budgets, isWhole } =
        scope === undefined
          ? await namedBudgets(services)
          : await services.ownBudgets.of(scope.groupId, services, services.budgets().refusals);
      const problems = scope === undefined ? await presentProblems(services, budgets) : budgetProblems(budgets);
      return {
        complete: isWhole,
        problems: problems.map(({ severity, kind, subject, message, next, untilMs }) => ({
          severity,
          kind,
          subject,
          message,
          next,
          until_at: isoOrNull(untilMs === null ? null : Math.round(untilMs)),
        })),
      };
    },
  }),
];

/** How far back failures count as present. */
const recentMs = 5 * 60_000;

async function presentProblems(services: Services, budgets: readonly BudgetFact[]): Promise<readonly GatewayProblem[]> {
  const { store, state, insecureTransport, certificate } = await services.health();
  const recent = services.traffic.since(services.wallMs() - recentMs);
  return problemsOf({
    storeOk: store.ok,
    stateOk: state.ok,
    insecureTransport,
    certificateDaysLeft: certificate?.daysLeft ?? null,
    channels: services.channels.status(),
    budgets,
    traffic: {
      calls: recent.reduce((sum, { calls }) => sum + calls, 0),
      failed: recent.reduce((sum, { failed }) => sum + failed, 0),
    },
  });
}

async function namedBudgets(services: Services): Promise<BudgetFacts> {
  const { spent, isWhole } = services.budgets();
  const idsOf = (wanted: BudgetFact["of"]): readonly string[] => spent.filter(({ of }) => of === wanted).map(({ id }) => id);
  const names = {
    key: await keyNames(services, idsOf("key"), spent.length).catch(orNamesOf(services.fileKeys())),
    group: await groupNames(services, idsOf("group")).catch(orNamesOf(services.fileGroups())),
  };
  const budgets = spent.map(({ of, id, models, limitNanos, spentNanos, isRefusing }) => {
    return { of, id, name: names[of].get(id) ?? id, models, limitNanos, spentNanos, isRefusing };
  });
  return { budgets, isWhole };
}

/** That the store is lost is the problem to show, so it must not hide it. */
function orNamesOf(inFile: readonly { readonly id: string; readonly name: string }[]) {
  return (error: unknown): ReadonlyMap<string, string> => {
    if (!(error instanceof StorageError)) throw error;
    return new Map(inFile.map(({ id, name }) => [id, name]));
  };
}
