import { groupByIdOrName } from "../../manage/group-search.ts";
import { keyByIdOrName, keyNames } from "../../manage/key-search.ts";
import { receiptPage } from "../../manage/receipts/receipt-search.ts";
import { shownSummary } from "../../manage/receipts/receipt-view.ts";
import type { Receipt } from "../../usage/receipt.ts";
import { parsePastMoment } from "../../usage/time-text.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { json, localMinute, money } from "../shown-text.ts";
import { table } from "../table.ts";
import type { RequestsRequest } from "./arguments.ts";

export async function runRequests(request: RequestsRequest, store: OpenStore, { terminal, wallMs }: CommandContext): Promise<void> {
  await store.catchUp();
  const receipts = await found(request, store, wallMs());
  const names = await keyNames(
    store,
    receipts.map(({ keyId }) => keyId),
    namesMax,
  );
  if (request.json) terminal.print(json(receipts.map((receipt) => shownSummary(receipt, names.get(receipt.keyId) ?? null))));
  else if (receipts.length === 0) terminal.say("No call matches.");
  else terminal.print(receiptsTable(receipts, names));
}

const namesMax = 5_000;

/** Page by page: a search for something rare gets pages that are empty. */
async function found(request: RequestsRequest, store: OpenStore, nowMs: number): Promise<readonly Receipt[]> {
  const { key, group, since, until, model, channel, state, figures, limit } = request;
  const query = {
    // The receipts of a removed key or group stay, under its id.
    keyId: key === null ? null : ((await keyByIdOrName(store, key))?.key.id ?? key),
    groupId: group === null ? null : ((await groupByIdOrName(store, group))?.group.id ?? group),
    sinceMs: since === null ? null : parsePastMoment(since, nowMs),
    untilMs: until === null ? null : parsePastMoment(until, nowMs),
    model,
    channel,
    state,
    figures,
  };
  const receipts: Receipt[] = [];
  let before: string | null = null;
  do {
    const page = await receiptPage(store.storage.receipts, { ...query, before, limit: Math.min(pageMax, limit - receipts.length) });
    receipts.push(...page.receipts);
    before = page.next;
  } while (before !== null && receipts.length < limit);
  return receipts;
}

const pageMax = 200;

function receiptsTable(receipts: readonly Receipt[], names: ReadonlyMap<string, string>): string {
  return table<Receipt>(
    [
      { title: "STARTED", cell: ({ startedMs }) => localMinute(startedMs) },
      { title: "REQUEST", cell: ({ requestId }) => requestId },
      { title: "KEY", cell: ({ keyId }) => names.get(keyId) ?? keyId },
      { title: "MODEL", cell: ({ model }) => model },
      { title: "CHANNEL", cell: ({ channel }) => channel ?? "-" },
      { title: "STATE", cell: ({ state, status }) => `${state} ${status}` },
      { title: "MS", right: true, cell: ({ tookMs }) => String(Math.round(tookMs)) },
      { title: "COST USD", right: true, cell: ({ billedNanos }) => (billedNanos === null ? "unknown" : money(billedNanos)) },
    ],
    receipts,
  );
}
