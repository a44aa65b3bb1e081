import { keyNames } from "../../manage/key-search.ts";
import { shownReceipt } from "../../manage/receipts/receipt-view.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { CommandError } from "../command-error.ts";
import { json, shown } from "../shown-text.ts";
import type { ExplainCallRequest } from "./arguments.ts";
import { explainedCall } from "./explained-call.ts";

export async function runExplain(request: ExplainCallRequest, store: OpenStore, { terminal }: CommandContext): Promise<void> {
  const waitingBytes = await store.catchUp();
  const receipt = await store.storage.receipts.find(request.id);
  if (receipt === null) {
    const why = waitingBytes > 0 ? "Receipts are still on their way into the store: try again later." : "Was it made through this gateway?";
    throw new CommandError(`No call has the id ${JSON.stringify(shown(request.id))}. ${why}`);
  }
  const keyName = (await keyNames(store, [receipt.keyId], 1)).get(receipt.keyId) ?? null;
  if (request.json) return terminal.print(json(shownReceipt(receipt, keyName)));
  terminal.print(explainedCall(receipt, keyName));
}
