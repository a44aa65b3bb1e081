import type { CommandSurroundings } from "../command-context.ts";
import { CommandError } from "../command-error.ts";
import type { Management } from "../management/management.ts";
import { json, shown } from "../shown-text.ts";
import type { ExplainCallRequest } from "./arguments.ts";
import { explainedCall } from "./explained-call.ts";

export async function runExplain(request: ExplainCallRequest, management: Management, { terminal }: CommandSurroundings): Promise<void> {
  const waitingBytes = await management.catchUp();
  const receipt = await management.receipt(request.id);
  if (receipt === null) {
    const why = waitingBytes > 0 ? "Receipts are still on their way into the store: try again later." : "Was it made through this gateway?";
    throw new CommandError(`No call has the id ${JSON.stringify(shown(request.id))}. ${why}`);
  }
  terminal.print(request.json ? json(receipt) : explainedCall(receipt));
}
