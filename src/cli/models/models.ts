import { catalog, installed } from "../../../packages/embedded/src/catalog.ts";
import { addAddon, type AddOptions } from "../../../packages/embedded/src/addons/add.ts";
import { keptBytes, modelId, type Addon } from "../../../packages/embedded/src/addons/addon.ts";
import { isProblem } from "../../../packages/embedded/src/addons/problem.ts";
import { removeAddon } from "../../../packages/embedded/src/addons/remove.ts";
import { shownBytes } from "../../../packages/embedded/src/addons/shown-bytes.ts";
import { addons } from "../../../packages/embedded/src/addons/table.ts";
import { usageExitCode, type ModelsRequest } from "../arguments.ts";
import { renderModels, shownModels } from "./models-list.ts";
import { progressDisplay } from "./models-progress.ts";

/** What the commands on models need of the context. */
export interface ModelsWorld {
  readonly dataDir: string;
  /** What npm is run with. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The known word that a mistyped one was probably meant to be. */
  readonly nearest: (word: string, known: readonly string[]) => string | null;
  readonly addons?: readonly Addon[];
  readonly freeBytes?: NonNullable<AddOptions["freeBytes"]>;
}

/** Carries out `sluice models …` and gives the code to exit with. Results go to standard output, everything else to standard error. */
export async function runModels(request: ModelsRequest, context: ModelsWorld): Promise<number> {
  const table = context.addons ?? addons;
  if (request.act === "list") {
    const models = shownModels(table, context.dataDir);
    console.log(request.json ? JSON.stringify(models, null, 2) : renderModels(models));
    return 0;
  }
  const name = request.name.replace(/^embedded\//, "");
  const addon = table.find((candidate) => candidate.name === name);
  if (addon !== undefined) return request.act === "add" ? add(addon, context) : remove(addon, context);
  const builtIn = catalog.find(({ upstream }) => upstream === name);
  if (builtIn === undefined) return refuseUnknown(name, table, context);
  if (request.act === "add" && installed(builtIn)) {
    console.log(`${builtIn.id} is built in: there is nothing to add.`);
    return 0;
  }
  console.error(
    request.act === "add"
      ? `${builtIn.id} is built in, but its package ${builtIn.package} is not installed: run npm install where Sluice is.`
      : `${builtIn.id} is built in and cannot be removed.`,
  );
  return failureExitCode;
}

const failureExitCode = 1;
/** What a shell makes of a program that an interrupt ended. */
const interruptExitCode = 130;

async function add(addon: Addon, { dataDir, env, freeBytes }: ModelsWorld): Promise<number> {
  const interrupt = new AbortController();
  const display = progressDisplay(process.stderr, () => performance.now());
  const onInterrupt = (): void => {
    // Whoever insists need not wait for npm to end.
    if (interrupt.signal.aborted) process.exit(interruptExitCode);
    interrupt.abort();
  };
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onInterrupt);
  try {
    const added = await addAddon(addon, {
      dataDir,
      env,
      signal: interrupt.signal,
      onProgress: display.show,
      ...(freeBytes === undefined ? {} : { freeBytes }),
    });
    display.end();
    if (!isProblem(added)) {
      console.log(
        added.wasThere
          ? `${modelId(addon)} is there already, in ${added.directory}.`
          : `Added ${modelId(addon)} (${shownBytes(keptBytes(addon))}) in ${added.directory}. A running gateway knows it after a reload (SIGHUP).`,
      );
      return 0;
    }
    if (interrupt.signal.aborted) {
      console.error(`Stopped. What was fetched is kept: sluice models add ${addon.name} goes on from there.`);
      return interruptExitCode;
    }
    console.error(`${modelId(addon)} was not added. ${added.message}`);
    return failureExitCode;
  } finally {
    display.end();
    process.off("SIGINT", onInterrupt);
    process.off("SIGTERM", onInterrupt);
  }
}

async function remove(addon: Addon, { dataDir }: ModelsWorld): Promise<number> {
  try {
    if (await removeAddon(addon, dataDir)) {
      console.log(`Removed ${modelId(addon)}. A running gateway forgets it after a reload (SIGHUP).`);
      return 0;
    }
    console.error(`${modelId(addon)} is not added, so there is nothing to remove.`);
  } catch (error) {
    console.error(`${modelId(addon)} was not removed: ${error instanceof Error ? error.message : String(error)}`);
  }
  return failureExitCode;
}

function refuseUnknown(name: string, table: readonly Addon[], { nearest }: ModelsWorld): number {
  const known = table.map((addon) => addon.name);
  const meant = nearest(name, [...known, ...catalog.map(({ upstream }) => upstream)]);
  console.error(`There is no model ${JSON.stringify(name.slice(0, 100))}.${meant === null ? "" : ` Did you mean ${meant}?`}`);
  console.error(`To be added: ${known.join(", ")}. See sluice models list.`);
  return usageExitCode;
}
