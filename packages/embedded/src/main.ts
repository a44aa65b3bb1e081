import { rmdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { Engine } from "./server/engine.ts";
import { serveEngine } from "./server/serve-engine.ts";
import { servedModels, type ServedModels } from "./server/served-models.ts";
import { lowerPriority } from "./lower-priority.ts";

/**
 * One engine as a process of its own: `--engine speech|chat|transcription --socket PATH [--data DIR] [--idle-seconds N]`.
 * The models that were added to DIR are served beside those built in. It says `{"event":"ready"}` when it listens,
 * `beat` every second while it has work, or after each unit of it, and `rest` when it has none. It ends with its standard input, since then
 * whoever started it is gone.
 */
const engines = {
  speech: async (models: ServedModels) => (await import("./server/speech-engine.ts")).makeSpeechEngine(models),
  chat: async (models: ServedModels) => (await import("./server/chat-engine.ts")).makeChatEngine(models),
  transcription: async (models: ServedModels) => (await import("./server/transcription-engine.ts")).makeTranscriptionEngine(models),
} as const;

const idleSecondsDefault = 300;
/** A timer cannot be set for longer. */
const idleSecondsMax = 2_000_000;

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (typeof options === "string") return fail(options, 64);
  lowerPriority();
  const engine = await options.load();
  const { socket, idleMs } = options;
  const server = serveEngine(engine, { socket, idleMs, onIdle: () => void end(), onSign: say });
  let stopping: Promise<void> | null = null;
  const stopped = (): Promise<void> => (stopping ??= server.stop());
  const end = async (): Promise<void> => {
    await stopped();
    process.exit(0);
  };
  process.on("SIGTERM", () => void end());
  // A Ctrl-C reaches the whole group: the gateway may want to finish its requests first, and takes its engines along then.
  process.on("SIGINT", () => {
    if (process.stdin.isTTY) void end();
  });
  // Whoever made the folder for it was perhaps killed, and cannot clean up.
  const endOrphaned = async (): Promise<void> => {
    await stopped();
    removeFolder(socket);
    process.exit(0);
  };
  // The parent may be gone already; its silence is no reason to die noisily.
  process.stdout.on("error", () => {});
  process.stderr.on("error", () => {});
  process.stdin.on("end", () => void endOrphaned());
  process.stdin.on("close", () => void endOrphaned());
  process.stdin.on("error", () => void endOrphaned());
  process.stdin.resume();
  say("ready");
}

function say(event: string): void {
  process.stdout.write(`${JSON.stringify({ event })}\n`);
}

/** Only one that was made for sockets, and only when it is empty: other engines may still be at home. */
function removeFolder(socket: string): void {
  const folder = dirname(socket);
  if (!/^sluice-[A-Za-z0-9]{6}$/.test(basename(folder))) return;
  try {
    rmdirSync(folder);
  } catch {
    // The last one takes it away.
  }
}

interface Options {
  readonly load: () => Promise<Engine>;
  readonly socket: string;
  readonly idleMs: number;
}

function readOptions(words: readonly string[]): Options | string {
  const given = new Map<string, string>();
  for (let index = 0; index < words.length; index += 2) given.set(words[index] ?? "", words[index + 1] ?? "");
  const unknown = [...given.keys()].find((name) => !names.includes(name));
  if (unknown !== undefined) return `${unknown} is not known`;
  const operation = given.get("--engine") ?? "";
  if (!isOperation(operation)) return `--engine must be one of ${Object.keys(engines).join(", ")}`;
  const socket = given.get("--socket") ?? "";
  if (socket === "") return "--socket must be a path";
  const dataDir = given.get("--data") ?? null;
  if (dataDir === "") return "--data must be a path";
  const idleSeconds = Number(given.get("--idle-seconds") ?? idleSecondsDefault);
  if (!(idleSeconds > 0 && idleSeconds <= idleSecondsMax)) return `--idle-seconds must be from above 0 to ${idleSecondsMax}`;
  return { load: () => engines[operation](servedModels(operation, dataDir)), socket, idleMs: idleSeconds * 1000 };
}

const names = ["--engine", "--socket", "--data", "--idle-seconds"];

function isOperation(name: string): name is keyof typeof engines {
  return Object.hasOwn(engines, name);
}

function fail(message: string, code: number): never {
  process.stderr.write(`${JSON.stringify({ event: "failed", error: message })}\n`);
  process.exit(code);
}

try {
  await main();
} catch (thrown) {
  fail(thrown instanceof Error ? thrown.message : String(thrown), 70);
}
