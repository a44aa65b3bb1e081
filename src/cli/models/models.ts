import { catalog, installed } from "../../../packages/embedded/src/catalog.ts";
import { addAddon, type AddOptions } from "../../../packages/embedded/src/addons/add.ts";
import { keptBytes, modelId, type Addon } from "../../../packages/embedded/src/addons/addon.ts";
import { isProblem, shownBytes } from "../../../packages/embedded/src/addons/progress.ts";
import { removeAddon } from "../../../packages/embedded/src/addons/remove.ts";
import { addons } from "../../../packages/embedded/src/addons/table.ts";
import { usageExitCode, type ModelsRequest } from "../invocation.ts";
import { renderModels, shownModels } from "./models-list.ts";
import { progressDisplay } from "./models-progress.ts";

/** What the model commands need. */
export interface ModelsContext {
  readonly dataDir: string;
  /** The environment for npm. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The known name that is most similar to a mistyped one. */
  readonly nearest: (word: string, known: readonly string[]) => string | null;
  /** Writes the commands in a text as they have to be typed. */
  readonly asTyped: (text: string) => string;
  readonly addons?: readonly Addon[];
  readonly freeBytes?: NonNullable<AddOptions["freeBytes"]>;
}

/** Carries out `sluice models …` and returns the exit code. Results go to standard output, everything else to standard error. */
export async function runModels(request: ModelsRequest, context: ModelsContext): Promise<number> {
  const table = context.addons ?? addons;
  if (request.act === "list") {
    const models = shownModels(table, context.dataDir);
    console.log(request.json ? JSON.stringify(models, null, 2) : context.asTyped(renderModels(models)));
    return 0;
  }
  const name = request.name.replace(/^embedded\//, "");
  const addon = table.find((candidate) => candidate.name === name);
  if (addon !== undefined) return request.act === "add" ? add(addon, context) : remove(addon, context);
  const builtIn = catalog.find(({ upstream }) => upstream === name);
  if (builtIn === undefined) return reportUnknown(name, table, context);
  if (request.act === "add" && installed(builtIn)) {
    console.log(`${builtIn.id} is built in: there is nothing to add.`);
    return 0;
  }
  console.error(
    request.act === "add"
      ? `${builtIn.id} is built in, but its package ${builtIn.package} is not installed: install Sluice again with npm, which brings it.`
      : `${builtIn.id} is built in and cannot be removed.`,
  );
  return failureExitCode;
}

const failureExitCode = 1;
/** The exit code that a shell reports for a program that SIGINT ended. */
const interruptExitCode = 130;

async function add(addon: Addon, { dataDir, env, asTyped, freeBytes }: ModelsContext): Promise<number> {
  const interrupt = new AbortController();
  const display = progressDisplay(process.stderr, () => performance.now());
  const onInterrupt = (): void => {
    // A second signal does not wait for npm.
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
          ? `${modelId(addon)} is already installed, in ${added.directory}.`
          : `Added ${modelId(addon)} (${shownBytes(keptBytes(addon))}) in ${added.directory}. A running gateway uses it after a reload (SIGHUP).`,
      );
      return 0;
    }
    if (interrupt.signal.aborted) {
      console.error(asTyped(`Stopped. The partial download is kept: to continue it, run sluice models add ${addon.name} again.`));
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

async function remove(addon: Addon, { dataDir }: ModelsContext): Promise<number> {
  try {
    if (await removeAddon(addon, dataDir)) {
      console.log(`Removed ${modelId(addon)}. A running gateway stops using it after a reload (SIGHUP).`);
      return 0;
    }
    console.error(`${modelId(addon)} is not installed, so there is nothing to remove.`);
  } catch (error) {
    console.error(`${modelId(addon)} was not removed: ${error instanceof Error ? error.message : String(error)}`);
  }
  return failureExitCode;
}

function reportUnknown(name: string, table: readonly Addon[], { nearest, asTyped }: ModelsContext): number {
  const known = table.map((addon) => addon.name);
  const suggestion = nearest(name, [...known, ...catalog.map(({ upstream }) => upstream)]);
  console.error(`There is no model ${JSON.stringify(name.slice(0, 100))}.${suggestion === null ? "" : ` Did you mean ${suggestion}?`}`);
  console.error(asTyped(`You can add ${known.join(", ")}. See sluice models list.`));
  return usageExitCode;
}
