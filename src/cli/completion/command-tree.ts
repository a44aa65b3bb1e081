import type { Command } from "commander";

/** A command as a shell completes it. */
export interface CommandTree {
  readonly name: string;
  /** What may follow it: its commands and its options. */
  readonly words: readonly string[];
  readonly commands: readonly CommandTree[];
}

/** What the shells know is read from the commands themselves, so that it is never old. */
export function commandTree(command: Command): CommandTree {
  const help = command.createHelp();
  const commands = help
    .visibleCommands(command)
    .filter((inner) => inner.name() !== "help")
    .map(commandTree);
  return {
    name: command.name(),
    words: [...commands.map(({ name }) => name), ...help.visibleOptions(command).flatMap(({ long }) => long ?? [])],
    commands,
  };
}
