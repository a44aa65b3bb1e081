import { readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { LocalModel } from "../channels/local-model.ts";
import { carryOutElsewhere } from "./careful-elsewhere.ts";
import { readDocument } from "./document.ts";
import { isGroup } from "./kinds.ts";
import type { Elsewhere } from "./document.ts";
import type { Environment } from "./interpolate.ts";
import { normalise } from "./normalise.ts";
import type { Normalised } from "./normalise.ts";
import { inOneGo, inTurns } from "./turns.ts";
import type { Turns } from "./turns.ts";

export { renderProblem } from "./problem.ts";
export type { Problem } from "./problem.ts";
export type { ChannelSetting, ClientKey, LogLevel, Settings } from "./settings.ts";
export type { ModelsSetting } from "./kinds.ts";
export type { Listen } from "./listen.ts";

export interface ConfigSource {
  /** Where the text came from: files it names are relative to it. */
  readonly path: string | null;
  readonly text: string;
  readonly env: Environment;
  /** How many files the process may have open. */
  readonly nofile: number;
  /** The wall clock; now, unless a test says otherwise. */
  readonly nowMs?: number;
  /** What can run on this machine; nothing, unless the caller looked. */
  readonly localModels?: (dataDir: string) => readonly LocalModel[];
}

export type Loaded = Normalised;

/**
 * Reads a configuration file: YAML, with variables put in, checked against the schema and made complete. Never throws,
 * whatever the text holds.
 */
export function loadConfig(source: ConfigSource): Loaded {
  return inOneGo(load(source, null));
}

/** The same, a little at a time: a large file then does not keep the process from its calls. */
export function loadConfigInTurns(source: ConfigSource): Promise<Loaded> {
  return inTurns(load(source, carryOutElsewhere));
}

function* load({ path, text, env, nofile, nowMs, localModels = none }: ConfigSource, elsewhere: Elsewhere | null): Turns<Loaded> {
  try {
    const document = yield* readDocument(text, env, elsewhere);
    if ("problems" in document) return { ok: false, problems: document.problems };
    if (isEmpty(document.value)) return { ok: false, problems: [emptyFile] };
    return yield* normalise(document, {
      nofile,
      nowMs: nowMs ?? Date.now(),
      readSecretFile: (name) => readSecretFile(resolve(path === null ? "." : dirname(path), name)),
      localModels,
    });
  } catch {
    // The parser is not ours and the text is anybody's. What it threw may quote the file, so it is not repeated.
    const mend = "check the file for unusual characters and deep nesting";
    return { ok: false, problems: [{ line: null, path: "", reason: "the file cannot be understood", mend }] };
  }
}

const none = (): readonly LocalModel[] => [];

/** Nothing but comments. Whoever reloads one has it from an editor that has not finished, and keeps the channels that are there. */
function isEmpty(value: unknown): boolean {
  return value === null || (isGroup(value) && Object.keys(value).length === 0);
}

const emptyFile = {
  line: null,
  path: "",
  reason: "the file is empty",
  mend: "write at least one channel under channels: (examples/sluice.yaml shows how), or start without a file",
};

/** Far more than any key; a path that names something else must not be read into memory whole. */
const secretBytesMax = 64 * 1024;

function readSecretFile(path: string): string | null {
  try {
    const file = statSync(path);
    return file.isFile() && file.size <= secretBytesMax ? readFileSync(path, "utf8") : null;
  } catch {
    return null;
  }
}
