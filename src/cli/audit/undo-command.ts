import type { CommandSurroundings } from "../command-context.ts";
import { CommandError } from "../command-error.ts";
import type { Management } from "../management/management.ts";
import { isoMinute, json, shown } from "../shown-text.ts";
import type { UndoRequest } from "./arguments.ts";

/** Shows what will happen, asks, and takes the change back. */
export async function runUndo({ id, yes, json: asJson }: UndoRequest, management: Management, context: CommandSurroundings): Promise<void> {
  const { terminal } = context;
  const entry = await management.change(id);
  if (entry === null) throw new CommandError("There is no such entry in the audit log: see sluice audit.");
  const { changes, undo } = entry;
  if (!undo.possible) throw new CommandError(`This cannot be undone. ${undo.words}`);
  terminal.say(`${isoMinute(entry.done_at)}  ${shown(entry.actor.name)}  ${entry.action}  ${shown(entry.subject)}`);
  for (const { field, from, to, hidden } of changes) {
    terminal.say(shown(hidden ? `  ${field}: changed` : `  ${field}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`));
  }
  for (const words of [undo.words, ...undo.remarks]) terminal.say(words);
  if (!yes && terminal.isInteractive && !(await terminal.confirm("Undo this change?"))) throw new CommandError("Nothing was changed.");
  const secrets = undo.needs_secrets ? [await terminal.secret("The secret of the channel (not shown): ")] : null;
  await management.undo(id, secrets);
  if (asJson) terminal.print(json({ undone: id, action: entry.action, subject: entry.subject }));
  else terminal.print("It is undone.");
}
