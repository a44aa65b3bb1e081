import type { FigureBounds } from "../../gateway/storage.ts";
import type { AuditEntryView } from "../../manage/audit-export.ts";
import type { GroupEdit } from "../../manage/groups.ts";
import type { GroupView } from "../../manage/group-view.ts";
import type { KeyEdit } from "../../manage/keys.ts";
import type { InvoiceView, ModelView } from "../../manage/receipts/outcome-report.ts";
import { limitsOfView, limitsView, type KeyView, type LimitsView } from "../../manage/key-view.ts";
import type { Limits } from "../../limits/limits.ts";
import { dollarsOf, nanosOf } from "../../usage/dollars.ts";
import { isoOrNull } from "../../usage/time-text.ts";
import type { UsageView } from "../../usage/usage-view.ts";
import { AdminApiError, type RunningAdminApi } from "../admin-api.ts";
import type { CallFilters } from "../call-filters.ts";
import { apiAccessManagement } from "./access-management.ts";
import { placeOf, queryText, type ListName, type Query } from "./api-paths.ts";
import { apiPriceManagement } from "./price-management.ts";
import type { CallSummaryView, CallView, ChangeView, KeyAndToken, GroupBudgetView, Management } from "./management.ts";

/** Management through the admin API of a gateway, which decides what the token may see and change. */
export function apiManagement(api: RunningAdminApi): Management {
  const get = <Answer>(path: string, query: Query = {}): Promise<Answer> => api.json("GET", `${path}${queryText(query)}`);
  /** Null for what does not exist, or is not for this token. */
  const find = async <Answer>(list: ListName, idOrName: string): Promise<Answer | null> => {
    try {
      return await get<Answer>(placeOf(list, idOrName));
    } catch (error) {
      if (error instanceof AdminApiError && error.code === "not_found") return null;
      throw error;
    }
  };
  /** What is sent depends on what was read, so that a change between the two means that it is read again. */
  const changeLimits = async <View extends { readonly limits: LimitsView }>(
    list: ListName,
    id: string,
    change: (before: Limits) => Limits,
  ): Promise<View> => {
    for (let left = changesMax; ; left -= 1) {
      const response = await api.request("GET", placeOf(list, id));
      const { limits } = (await response.json()) as View;
      const body = { limits: limitsView(change(limitsOfView(limits))) };
      // An older gateway has none, and takes no condition.
      const etag = response.headers.get("etag");
      try {
        const answer = await api.request("PATCH", placeOf(list, id), { body, ...(etag === null ? {} : { ifMatch: etag }) });
        return (await answer.json()) as View;
      } catch (error) {
        if (left === 0 || !(error instanceof AdminApiError) || error.code !== "precondition_failed") throw error;
      }
    }
  };
  const withToken = ({ token, ...key }: KeyView & { readonly token: string | null }): KeyAndToken => ({ key, token: token ?? "" });
  const budgetsOf = async (list: ListName, id: string): Promise<readonly GroupBudgetView[]> =>
    (await get<{ readonly budgets: readonly GroupBudgetView[] }>(`${placeOf(list, id)}/standing`)).budgets;
  return {
    ...apiAccessManagement(api),
    ...apiPriceManagement(api),
    catchUp: () => Promise.resolve(0),

    key: (idOrName) => find("keys", idOrName),
    keyPage: ({ search, revoked, after, limit }) => get("/keys", { search, revoked: String(revoked), after, limit: String(limit) }),
    keySpending: async ({ id }) => {
      const own = (await budgetsOf("keys", id)).find(({ name, models }) => name === null && models === null);
      if (own !== undefined) {
        return { nanos: nanosOf(own.spent_usd) ?? 0, budget: { nanos: nanosOf(own.limit_usd) ?? 0, period: own.period } };
      }
      const { rows } = await get<{ readonly rows: readonly UsageView[] }>("/usage", { key: id });
      return { nanos: nanosOf(rows[0]?.["cost_usd"] ?? 0) ?? 0, budget: null };
    },
    createKey: async (edit, readImport) => {
      const imported = readImport === null ? {} : { import: await readImport() };
      return withToken(await api.json("POST", "/keys", { ...keyBody(edit), ...imported }));
    },
    editKey: (id, edit) => api.json("PATCH", placeOf("keys", id), keyBody(edit)),
    changeKeyLimits: (id, change) => changeLimits("keys", id, change),
    rotateKey: async (id, overlapMs) =>
      withToken(await api.json("POST", `${placeOf("keys", id)}/rotate`, { overlap_seconds: Math.floor(overlapMs / 1000) })),
    revokeKey: (id) => api.json("POST", `${placeOf("keys", id)}/revoke`, {}),

    groups: async () => {
      const groups: GroupView[] = [];
      let after: string | null = null;
      do {
        const page: GroupPageAnswer = await get("/groups", { after, limit: String(pageRows) });
        groups.push(...page.groups.map(withoutChildren));
        after = page.next;
      } while (after !== null);
      return groups;
    },
    group: (idOrName) => find("groups", idOrName),
    groupBudgets: async (id) =>
      (await budgetsOf("groups", id)).map(({ name, models, period, limit_usd, spent_usd }) => ({
        name,
        models,
        period,
        limit_usd,
        spent_usd,
      })),
    createGroup: (edit) => api.json("POST", "/groups", groupBody(edit)),
    editGroup: (idOrName, edit) => api.json("PATCH", placeOf("groups", idOrName), groupBody(edit)),
    changeGroupLimits: (id, change) => changeLimits("groups", id, change),
    removeGroup: (id) => api.json("DELETE", placeOf("groups", id)),

    usage: async ({ by, ...filters }) =>
      (await get<{ readonly rows: readonly UsageView[] }>("/usage", { ...filtersQuery(filters), by: by.join(",") || null })).rows,
    outcomes: ({ by, ...filters }) => get("/outcomes", { ...filtersQuery(filters), by: by.join(",") || null }),
    comparison: async (model, other, { since, until, group }) =>
      (await get<{ readonly models: readonly ModelView[] }>("/comparison", { model, other, since, until, group })).models,
    invoice: async (month) => (await get<{ readonly rows: readonly InvoiceView[] }>("/invoice", { month })).rows,
    receiptPage: ({ state, mark, figures, before, limit, ...filters }) =>
      get<{ readonly receipts: readonly CallSummaryView[]; readonly next: string | null }>("/receipts", {
        ...filtersQuery(filters),
        state,
        outcome: mark,
        ...figuresQuery(figures),
        before,
        limit: String(Math.min(limit, pageRows)),
      }),
    receipt: async (id) => {
      const found = await find<CallView & { readonly namesakes: unknown }>("requests", id);
      if (found === null) return null;
      const { namesakes: _, ...view } = found;
      return view;
    },

    async *audit({ action, subject, actor, since, limit }) {
      let before: string | null = null;
      for (let left = limit; left > 0;) {
        const query = { action, subject, actor, since, before, limit: String(Math.min(pageRows, left)) };
        const page: AuditPageAnswer = await get("/audit", query);
        if (page.entries.length > 0) yield page.entries;
        left -= page.entries.length;
        before = page.next;
        if (before === null) return;
      }
    },
    change: (id) => find<ChangeView>("history", id),
    undo: async (id, secrets) => {
      await api.json("POST", `${placeOf("audit", id)}/undo`, secrets === null ? {} : { secrets });
    },
  };
}

/** Each needs somebody who is quicker once more. */
const changesMax = 10;
/** The most rows of a page of the admin API. */
const pageRows = 200;

interface GroupPageAnswer {
  readonly groups: readonly (GroupView & { readonly children: number })[];
  readonly next: string | null;
}

interface AuditPageAnswer {
  readonly entries: readonly AuditEntryView[];
  readonly next: string | null;
}

/** How many are below it is not part of a group. */
function withoutChildren(listed: GroupPageAnswer["groups"][number]): GroupView {
  const { children: _, ...group } = listed;
  return group;
}

function filtersQuery({ since, until, key, group, model, channel }: CallFilters): Query {
  return { since, until, key, group, model, channel };
}

function figuresQuery({ statusMin, statusMax, nanosMin, nanosMax, tookMsMin }: FigureBounds): Query {
  return {
    status: statusMin === undefined ? null : statusMin === statusMax ? String(statusMin) : `${Math.floor(statusMin / 100)}xx`,
    min_cost_usd: nanosMin === undefined ? null : dollarsOf(nanosMin),
    max_cost_usd: nanosMax === undefined ? null : dollarsOf(nanosMax),
    min_took_ms: tookMsMin === undefined ? null : String(tookMsMin),
  };
}

/** A field that is not given stays out of the body. */
function keyBody({ limits, expiresMs, splits, ...fields }: KeyEdit): object {
  return {
    ...fields,
    limits: limitsBody(limits),
    expires_at: expiresMs === undefined ? undefined : isoOrNull(expiresMs),
    long_audio: splitBody(splits?.audio),
    long_input: splitBody(splits?.input),
  };
}

function groupBody({ limits, defaults, ...fields }: GroupEdit): object {
  return {
    ...fields,
    limits: limitsBody(limits),
    default_key_limits: limitsBody(defaults?.keys),
    default_group_limits: limitsBody(defaults?.groups),
  };
}

function limitsBody(limits: Limits | undefined): LimitsView | undefined {
  return limits === undefined ? undefined : limitsView(limits);
}

function splitBody(splits: boolean | undefined): "split" | "off" | undefined {
  return splits === undefined ? undefined : splits ? "split" : "off";
}
