import type { Actor } from "../../gateway/storage.ts";
import { auditEntryView, auditPages } from "../../manage/audit-export.ts";
import { allGroups, groupByIdOrName, groupWithDefaults, keysWithin, keyWithDefaults } from "../../manage/group-search.ts";
import { groupView } from "../../manage/group-view.ts";
import { createGroup, editGroup, removeGroup } from "../../manage/groups.ts";
import { historyEntryView } from "../../manage/history/history-view.ts";
import { undoChange } from "../../manage/history/undo.ts";
import { keyById, keyByIdOrName, keyNames, keyPage } from "../../manage/key-search.ts";
import { budgetSpending, groupSpending, totalSpentNanos } from "../../manage/key-spending.ts";
import { keyView, type KeyView } from "../../manage/key-view.ts";
import { createKey, editKey, revokeKey, rotateKey, type KeyWithToken } from "../../manage/keys.ts";
import { countedFrom, invoiceRows, modelRows, monthSpan, outcomeRows } from "../../manage/receipts/outcome-report.ts";
import { receiptPage } from "../../manage/receipts/receipt-search.ts";
import { shownReceipt, shownSummary } from "../../manage/receipts/receipt-view.ts";
import { usageNames } from "../../manage/receipts/usage-names.ts";
import type { StoredKey } from "../../keys/stored-key.ts";
import { unlimited } from "../../limits/limits.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import { parsePastMoment } from "../../usage/time-text.ts";
import type { UsageQuery } from "../../usage/usage-row.ts";
import { usageView } from "../../usage/usage-view.ts";
import type { OpenStore } from "../command-context.ts";
import { orThrow } from "../command-error.ts";
import { storeAccessManagement } from "./access-management.ts";
import type { KeyAndToken, Management } from "./management.ts";
import { storePriceManagement } from "./price-management.ts";

/** Management of the store itself: whoever can open it may do everything. */
export function storeManagement(store: OpenStore, actor: Actor): Management {
  const { storage } = store;
  const shownKey = (key: StoredKey): KeyView => keyView({ source: "store", key }, store.wallMs());
  const withToken = ({ key, token }: KeyWithToken): KeyAndToken => ({ key: shownKey(key), token });
  const momentMs = (text: string | null): number | null => (text === null ? null : parsePastMoment(text, store.wallMs()));
  const usageQuery = async ({ by, since, until, key, group, model, channel }: Parameters<Management["usage"]>[0]): Promise<UsageQuery> => ({
    by,
    sinceMs: momentMs(since),
    untilMs: momentMs(until),
    keyId: key,
    ...(group !== null && by.includes("key") ? { keysOf: await keysWithin(store, group) } : { groupId: group }),
    model,
    channel,
  });
  return {
    ...storeAccessManagement(store, actor),
    ...storePriceManagement(store, actor),
    catchUp: () => store.catchUp(),

    key: async (idOrName) => {
      const known = await keyByIdOrName(store, idOrName);
      return known === null ? null : keyView(known, store.wallMs());
    },
    keyPage: async (query) => {
      const { keys, next } = await keyPage(store, query);
      return { keys: keys.map((known) => keyView(known, store.wallMs())), next };
    },
    keySpending: async ({ id }) => {
      const known = await keyById(store, id);
      if (known === null) return { nanos: 0, budget: null };
      const budgets = await budgetSpending(store, await keyWithDefaults(store, known.key));
      const own = budgets.find(({ name, models }) => name === null && models === null);
      return { nanos: own?.spentNanos ?? (await totalSpentNanos(store, known.key)), budget: own?.budget ?? null };
    },
    createKey: async (edit, readImport) => withToken(orThrow(await createKey(store, edit, readImport, actor))),
    editKey: async (id, edit) => shownKey(orThrow(await editKey(store, id, edit, actor))),
    changeKeyLimits: (id, change) =>
      storage.together(async (inside) => {
        const within = { ...store, storage: inside, reports: inside };
        const { limits = unlimited } = (await keyById(within, id))?.key ?? {};
        return shownKey(orThrow(await editKey(within, id, { limits: change(limits) }, actor)));
      }),
    rotateKey: async (id, overlapMs) => withToken(orThrow(await rotateKey(store, id, overlapMs, actor))),
    revokeKey: async (id) => shownKey(orThrow(await revokeKey(store, id, actor))),

    groups: async () => (await allGroups(store)).map(groupView),
    group: async (idOrName) => {
      const known = await groupByIdOrName(store, idOrName);
      return known === null ? null : groupView(known);
    },
    groupBudgets: async (id) => {
      const known = await groupByIdOrName(store, id);
      const spending = known === null ? [] : await groupSpending(store, await groupWithDefaults(store, known.group));
      return spending.map(({ name, models, budget, spentNanos }) => ({
        name,
        models,
        period: budget.period,
        limit_usd: dollarsNumber(budget.nanos),
        spent_usd: dollarsNumber(spentNanos),
      }));
    },
    createGroup: async (edit) => groupView({ source: "store", group: orThrow(await createGroup(store, edit, actor)) }),
    editGroup: async (idOrName, edit) => groupView({ source: "store", group: orThrow(await editGroup(store, idOrName, edit, actor)) }),
    changeGroupLimits: (id, change) =>
      storage.together(async (inside) => {
        const within = { ...store, storage: inside, reports: inside };
        const { limits = unlimited } = (await groupByIdOrName(within, id))?.group ?? {};
        return groupView({ source: "store", group: orThrow(await editGroup(within, id, { limits: change(limits) }, actor)) });
      }),
    removeGroup: async (id) => groupView({ source: "store", group: orThrow(await removeGroup(store, id, actor)) }),

    usage: async (query) => {
      const rows = await storage.receipts.usage(await usageQuery(query));
      const names = await usageNames(store, rows, namesMax);
      return rows.map((row) => usageView(row, (id) => names.get(id) ?? null));
    },
    outcomes: async (query) => ({ counted_from: await countedFrom(store), rows: await outcomeRows(store, await usageQuery(query)) }),
    comparison: (model, other, { since, until, group }) =>
      modelRows(store, [model, other], { sinceMs: momentMs(since), untilMs: momentMs(until), groupId: group }),
    invoice: async (month) => {
      const span = monthSpan(month);
      return span === null ? [] : (await invoiceRows(store, span)).rows;
    },
    receiptPage: async ({ since, until, key, group, ...query }) => {
      const page = await receiptPage(storage.receipts, {
        ...query,
        keyId: key,
        groupId: group,
        sinceMs: momentMs(since),
        untilMs: momentMs(until),
      });
      const ids = page.receipts.map(({ keyId }) => keyId);
      const names = await keyNames(store, ids, namesMax);
      return { receipts: page.receipts.map((receipt) => shownSummary(receipt, names.get(receipt.keyId) ?? null)), next: page.next };
    },
    receipt: async (id) => {
      const receipt = await storage.receipts.find(id);
      if (receipt === null) return null;
      return shownReceipt(receipt, (await keyNames(store, [receipt.keyId], 1)).get(receipt.keyId) ?? null);
    },

    async *audit({ since, ...query }) {
      for await (const page of auditPages(storage, { ...query, sinceMs: momentMs(since), before: null })) yield page.map(auditEntryView);
    },
    change: async (id) => {
      const entry = await storage.audit.get(id);
      return entry === null ? null : historyEntryView(entry, null);
    },
    undo: async (id, secrets) => {
      orThrow(await undoChange(store, id, secrets, actor));
    },
  };
}

/** The names of at most this many keys are looked up; the others are shown by their ids. */
const namesMax = 5_000;
