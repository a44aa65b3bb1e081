import { whoseCalls } from "../call-filters.ts";
import type { CommandSurroundings } from "../command-context.ts";
import type { CallSummaryView, Management } from "../management/management.ts";
import { dollars, isoMinute, json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { RequestsRequest } from "./arguments.ts";

export async function runRequests(request: RequestsRequest, management: Management, { terminal }: CommandSurroundings): Promise<void> {
  await management.catchUp();
  const receipts = await found(request, await whoseCalls(request, management, terminal), management);
  if (request.json) terminal.print(json(receipts));
  else if (receipts.length === 0) terminal.say("No call matches.");
  else terminal.print(receiptsTable(receipts));
}

/** Page by page: a search for something rare gets pages that are empty. */
async function found(
  request: RequestsRequest,
  whose: Pick<RequestsRequest, "key" | "group">,
  management: Management,
): Promise<readonly CallSummaryView[]> {
  const { since, until, model, channel, state, mark, figures, limit } = request;
  const query = {
    ...whose,
    since,
    until,
    model,
    channel,
    state,
    mark,
    figures,
  };
  const receipts: CallSummaryView[] = [];
  let before: string | null = null;
  do {
    const page: Awaited<ReturnType<Management["receiptPage"]>> = await management.receiptPage({
      ...query,
      before,
      limit: Math.min(pageMax, limit - receipts.length),
    });
    receipts.push(...page.receipts);
    before = page.next;
  } while (before !== null && receipts.length < limit);
  return receipts;
}

const pageMax = 200;

function receiptsTable(receipts: readonly CallSummaryView[]): string {
  return table<CallSummaryView>(
    [
      { title: "STARTED", cell: ({ started_at }) => isoMinute(started_at) },
      { title: "REQUEST", cell: ({ request_id }) => request_id },
      { title: "KEY", cell: ({ key, key_name }) => key_name ?? key },
      { title: "MODEL", cell: ({ model }) => model },
      { title: "CHANNEL", cell: ({ channel }) => channel ?? "-" },
      { title: "STATE", cell: ({ state, status }) => `${state} ${status}` },
      { title: "MS", right: true, cell: ({ took_ms }) => String(Math.round(took_ms)) },
      { title: "COST USD", right: true, cell: ({ cost_usd }) => (cost_usd === null ? "unknown" : dollars(cost_usd)) },
    ],
    receipts,
  );
}
