import { hostname } from "node:os";
import type { InitContext } from "../cli/init/command.ts";
import { openFilesMax } from "../cli/process/open-files.ts";
import type { Terminal } from "../cli/terminal.ts";
import { userName } from "../cli/user-name.ts";
import { readFileText } from "../config/file-text.ts";
import { nearest } from "../config/findings/nearest.ts";
import type { Environment } from "../config/interpolate.ts";
import { loadConfig, renderProblem, type Loaded } from "../config/load.ts";
import { localModels } from "../engines/catalog.ts";
import { commandContext } from "./command-context.ts";
import { schemaText } from "./schema-text.ts";

/** Connects `sluice init` to the configuration and the store. */
export function initContext(terminal: Terminal, env: Environment, masterKey: () => string | null): InitContext {
  const load = async (file: string, text: string, more: Readonly<Record<string, string>>): Promise<Loaded> =>
    loadConfig({ path: file, text, env: { ...env, ...more }, nofile: openFilesMax(), localModels: await localModels() });
  return {
    terminal,
    env,
    nearest,
    schemaText,
    actor: { kind: "cli", name: userName(), address: hostname() },
    problemsOf: async (file, text, more) => {
      const loaded = await load(file, text, more);
      return loaded.ok ? [] : loaded.problems.map((problem) => renderProblem(file, problem));
    },
    openStore: async (file, more) => {
      const text = await readFileText(file);
      const loaded = typeof text === "string" ? await load(file, text, more) : null;
      if (loaded?.ok !== true) throw new Error(`${file} changed while it was used: create the account with sluice accounts create.`);
      return commandContext(loaded.settings, file, masterKey(), env, terminal).open();
    },
  };
}
