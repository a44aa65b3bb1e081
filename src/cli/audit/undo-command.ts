import { historyEntryView } from "../../manage/history/history-view.ts";
import { undoChange } from "../../manage/history/undo.ts";
import { undoPlanOf } from "../../manage/history/undo-plan.ts";
import type { CommandContext, OpenStore } from "../command-context.ts";
import { CommandError, orThrow } from "../command-error.ts";
import { json, localMinute, shown } from "../shown-text.ts";
import type { UndoRequest } from "./arguments.ts";

/** Shows what will happen, asks, and takes the change back. */
export async function runUndo({ id, yes, json: asJson }: UndoRequest, store: OpenStore, context: CommandContext): Promise<void> {
  const { terminal, actor } = context;
  const entry = await store.storage.audit.get(id);
  if (entry === null) throw new CommandError("There is no such entry in the audit log: see sluice audit.");
  const plan = undoPlanOf(entry);
  if ("why" in plan) throw new CommandError(`This cannot be undone. ${plan.why}`);
  const { changes } = historyEntryView(entry, null);
  terminal.say(`${localMinute(entry.atMs)}  ${shown(entry.actor.name)}  ${entry.action}  ${shown(entry.subject)}`);
  for (const { field, from, to, hidden } of changes) {
    terminal.say(shown(hidden ? `  ${field}: changed` : `  ${field}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`));
  }
  for (const words of [plan.words, ...plan.remarks]) terminal.say(words);
  if (!yes && terminal.isInteractive && !(await terminal.confirm("Undo this change?"))) throw new CommandError("Nothing was changed.");
  const secrets = plan.needsSecrets ? [await terminal.secret("The secret of the channel (not shown): ")] : null;
  orThrow(await undoChange(store, id, secrets, actor));
  if (asJson) terminal.print(json({ undone: id, action: entry.action, subject: entry.subject }));
  else terminal.print("It is undone.");
}
