import { catalog, installed } from "../../../packages/embedded/src/catalog.ts";
import { fetchedBytes, keptBytes, modelId, total, type Addon } from "../../../packages/embedded/src/addons/addon.ts";
import { addonState } from "../../../packages/embedded/src/addons/installed.ts";
import { shownBytes } from "../../../packages/embedded/src/addons/progress.ts";

/** A model as `sluice models list` shows it. */
export interface ShownModel {
  readonly id: string;
  readonly operation: string;
  /** The size on disk. */
  readonly bytes: number;
  /** The size of the download; 0 for a built-in model. */
  readonly fetchBytes: number;
  /** `missing`: built in, but its package is not installed. `incomplete`: partly downloaded. `unsupported`: not for this machine. */
  readonly state: "built in" | "missing" | "added" | "available" | "incomplete" | "unsupported";
  readonly licence: string;
  readonly description: string;
}

export function shownModels(addons: readonly Addon[], dataDir: string): readonly ShownModel[] {
  const platform = `${process.platform}-${process.arch}`;
  return [
    ...catalog.map((model): ShownModel => {
      const { id, operation, files, licence, description } = model;
      return { id, operation, bytes: total(files), fetchBytes: 0, state: installed(model) ? "built in" : "missing", licence, description };
    }),
    ...addons.map((addon): ShownModel => {
      const { operation, licence, description, platforms } = addon;
      const state = platforms === null || platforms.includes(platform) ? addonState(addon, dataDir) : "unsupported";
      return { id: modelId(addon), operation, bytes: keptBytes(addon), fetchBytes: fetchedBytes(addon), state, licence, description };
    }),
  ];
}

/** A table, and how to add a model. */
export function renderModels(models: readonly ShownModel[]): string {
  const rows = [
    ["ID", "OPERATION", "SIZE", "STATE", "LICENCE"],
    ...models.map(({ id, operation, bytes, state, licence }) => [id, operation, shownBytes(bytes), state, licence]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const addable = models.find(({ state }) => state === "available" || state === "incomplete");
  const hints = [
    ...(models.some(({ state }) => state === "missing") ? [missingHint] : []),
    ...(addable === undefined ? [] : [`Add one with: sluice models add ${addable.id.replace(/^embedded\//, "")}`]),
  ];
  return hints.length === 0 ? lines.join("\n") : [...lines, "", ...hints].join("\n");
}

const missingHint = "Those that are missing are optional dependencies: install Sluice again with npm, without --omit=optional.";
