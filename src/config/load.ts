import { readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { LocalModel } from "../channels/channel.ts";
import { readDocument } from "./document.ts";
import { isGroup } from "./kinds.ts";
import { withSecretFiles, type Environment } from "./interpolate.ts";
import { normalise, type Normalised } from "./normalise.ts";

export { renderProblem } from "./findings/problem.ts";
export type { Problem } from "./findings/problem.ts";
export type { ChannelSetting, ClientKey, Settings } from "./settings.ts";
export type { ModelsSetting } from "./kinds.ts";
export type { Listen } from "./listen.ts";

export interface ConfigSource {
  /** The file that the text came from. Paths in it are relative to this file. */
  readonly path: string | null;
  readonly text: string;
  readonly env: Environment;
  /** How many files the process may have open. */
  readonly nofile: number;
  /** Whether the files of `tls` are read and checked; they are by default. */
  readonly checksCertificate?: boolean;
  /** The wall clock; the current time unless a test sets it. */
  readonly nowMs?: number;
  /** The models that can run on this machine; none by default. */
  readonly localModels?: (dataDir: string) => readonly LocalModel[];
}

export type Loaded = Normalised;

/**
 * Reads a configuration file: parses the YAML, replaces variables, checks it against the schema and fills in defaults. It never throws,
 * whatever the text is, and yields to the event loop now and then, so that a reload does not delay calls.
 */
export async function loadConfig(source: ConfigSource): Promise<Loaded> {
  const { path, text, env, nofile, nowMs, localModels = none, checksCertificate = true } = source;
  try {
    const document = await readDocument(text, withSecretFiles(text, env, readSecretFile));
    if ("problems" in document) return { ok: false, problems: document.problems };
    if (isEmpty(document.value)) return { ok: false, problems: [emptyFile] };
    await yieldToEventLoop();
    const resolvePath = (name: string): string => resolve(path === null ? "." : dirname(path), name);
    return normalise(document, {
      file: path,
      nofile,
      nowMs: nowMs ?? Date.now(),
      readSecretFile: (name) => readSecretFile(resolvePath(name)),
      resolvePath,
      checksCertificate,
      localModels,
    });
  } catch {
    // The text is untrusted, and what the YAML parser threw may quote secrets in it, so it is not repeated.
    const fix = "check the file for unusual characters and deep nesting";
    return { ok: false, problems: [{ line: null, path: "", reason: "the file cannot be parsed", fix }] };
  }
}

const none = (): readonly LocalModel[] => [];

/** Nothing but comments. During a reload an editor may not have finished writing the file, and the current channels must stay. */
function isEmpty(value: unknown): boolean {
  return value === null || (isGroup(value) && Object.keys(value).length === 0);
}

const emptyFile = {
  line: null,
  path: "",
  reason: "the file is empty",
  fix: "write at least one channel under channels: (examples/sluice.yaml shows how), or start without a file",
};

/** Far more than any key needs, so that a wrong path does not fill the memory. */
const secretBytesMax = 64 * 1024;

export function readSecretFile(path: string): string | null {
  try {
    const file = statSync(path);
    return file.isFile() && file.size <= secretBytesMax ? readFileSync(path, "utf8") : null;
  } catch {
    return null;
  }
}
