import { rmdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { Engine } from "./server/engine.ts";
import { serveEngine } from "./server/serve-engine.ts";
import { servedModels, type ServedModels } from "./server/served-models.ts";
import { lowerPriority } from "./lower-priority.ts";

/**
 * One engine process: `--engine speech|chat|transcription --socket PATH [--data DIR] [--idle-seconds N]`. The models that were added
 * to DIR are served as well. It prints `{"event":"ready"}` when it listens, `beat` every second or after each unit of work while it is
 * busy, and `rest` when it is not. It exits when its stdin is closed, because then the process that started it has exited.
 */
const engines = {
  speech: async (models: ServedModels) => (await import("./server/speech-engine.ts")).makeSpeechEngine(models),
  chat: async (models: ServedModels) => (await import("./server/chat-engine.ts")).makeChatEngine(models),
  transcription: async (models: ServedModels) => (await import("./server/transcription-engine.ts")).makeTranscriptionEngine(models),
} as const;

const idleSecondsDefault = 300;
/** The longest possible timer. */
const idleSecondsMax = 2_000_000;

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (typeof options === "string") return fail(options, 64);
  lowerPriority();
  const engine = await options.load();
  const { socket, idleMs } = options;
  const server = serveEngine(engine, { socket, idleMs, onIdle: () => void end(), onHeartbeat: print });
  let stopping: Promise<void> | null = null;
  const stopped = (): Promise<void> => (stopping ??= server.stop());
  const end = async (): Promise<void> => {
    await stopped();
    process.exit(0);
  };
  process.on("SIGTERM", () => void end());
  // Ctrl-C reaches the whole process group: the gateway may want to finish its requests first, and then stops its engines.
  process.on("SIGINT", () => {
    if (process.stdin.isTTY) void end();
  });
  // The process that made the folder may have been killed before it could delete it.
  const endOrphaned = async (): Promise<void> => {
    await stopped();
    removeFolder(socket);
    process.exit(0);
  };
  // The parent may have exited already, which is not an error.
  process.stdout.on("error", () => {});
  process.stderr.on("error", () => {});
  process.stdin.on("end", () => void endOrphaned());
  process.stdin.on("close", () => void endOrphaned());
  process.stdin.on("error", () => void endOrphaned());
  process.stdin.resume();
  print("ready");
}

function print(event: string): void {
  process.stdout.write(`${JSON.stringify({ event })}\n`);
}

/** Only a folder that was made for sockets, and only if it is empty: other engines may still use it. */
function removeFolder(socket: string): void {
  const folder = dirname(socket);
  if (!/^sluice-[A-Za-z0-9]{6}$/.test(basename(folder))) return;
  try {
    rmdirSync(folder);
  } catch {
    // The last engine deletes it.
  }
}

interface Options {
  readonly load: () => Promise<Engine>;
  readonly socket: string;
  readonly idleMs: number;
}

function readOptions(args: readonly string[]): Options | string {
  const given = new Map<string, string>();
  for (let index = 0; index < args.length; index += 2) given.set(args[index] ?? "", args[index + 1] ?? "");
  const unknown = [...given.keys()].find((name) => !names.includes(name));
  if (unknown !== undefined) return `Unknown option ${unknown}`;
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
