import { afterAll } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArguments } from "../../src/cli/arguments.ts";
import { CommandError } from "../../src/cli/command-error.ts";
import { remoteGateway } from "../../src/cli/remote-gateway.ts";
import { runRemoteChannelTest, runRemoteCommand, runStoreCommand } from "../../src/cli/store-commands.ts";
import { oneLine, type Terminal } from "../../src/cli/terminal.ts";
import { commandContext } from "../../src/app/command-context.ts";
import { readResourceText } from "../../src/app/resource-text.ts";
import { schemaText } from "../../src/app/schema-text.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { Storage } from "../../src/gateway/storage.ts";
import { openStore } from "../../src/app/durable.ts";
import { eventually } from "./eventually.ts";
import { product } from "./product.ts";

export interface Outcome {
  readonly code: number;
  /** Standard output. */
  readonly out: string;
  /** Standard error. */
  readonly err: string;
}

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
}

/** The command line over a store of its own: as the real program, a process for each command, or quicker, in this one. */
export class CommandLine {
  readonly folder = mkdtempSync(join(tmpdir(), "sluice-cli-"));
  readonly dataDir = join(this.folder, "data");
  readonly config = join(this.folder, "sluice.yaml");
  readonly #store: string;

  constructor(config: Readonly<Record<string, unknown>> = {}) {
    leftovers.push(this.folder);
    this.#store = typeof config["store"] === "string" ? config["store"] : "sqlite";
    // JSON is YAML.
    writeFileSync(this.config, JSON.stringify({ listen: "127.0.0.1:0", admin: "off", data_dir: this.dataDir, ...config }));
  }

  /** The real program. */
  async run(args: readonly string[], { input, env = {} }: RunOptions = {}): Promise<Outcome> {
    const child = Bun.spawn([...program, ...args], {
      cwd: this.folder,
      env: { ...this.#environment(), ...env },
      stdin: input === undefined ? "ignore" : Buffer.from(input),
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
    return { code, out, err };
  }

  /** The same without a process of its own. */
  async here(args: readonly string[], { input, env = {} }: RunOptions = {}): Promise<Outcome> {
    const invocation = parseArguments(args, "1.2.3");
    if (invocation.command !== "store") return { code: 64, out: "", err: "text" in invocation ? invocation.text : "" };
    const file = invocation.config ?? this.config;
    const read = await loadConfig({ path: file, text: readFileSync(file, "utf8"), env, nofile: 1024 });
    if (!read.ok) return { code: 78, out: "", err: read.problems.map(({ reason }) => reason).join("\n") };
    const terminal = new Recorder(input);
    const context = commandContext(read.settings, file, env["SLUICE_MASTER_KEY"] ?? null, env, terminal);
    const code = await runStoreCommand(invocation.request, context);
    return { code, out: terminal.out, err: terminal.err };
  }

  /** What a command that goes well prints with `--json`. */
  async json<T>(...args: readonly string[]): Promise<T> {
    const { code, out, err } = await this.here([...args, "--json"]);
    if (code !== 0) throw new Error(`sluice ${args.join(" ")} ended with ${code}: ${err}`);
    return JSON.parse(out) as T;
  }

  /** Gives a command on a terminal: whenever it asks, the next answer is typed. */
  async onTerminal(args: readonly string[], answers: readonly (readonly [question: string, typed: string])[]): Promise<Outcome> {
    let out = "";
    const decoder = new TextDecoder();
    const child = Bun.spawn([...program, ...args], {
      cwd: this.folder,
      env: this.#environment(),
      terminal: { cols: 200, rows: 24, data: (_, bytes) => void (out += decoder.decode(bytes, { stream: true })) },
    });
    try {
      for (const [question, typed] of answers) {
        await eventually(question, () => out.includes(question), 10_000);
        child.terminal?.write(typed);
      }
      const code = await child.exited;
      return { code, out, err: out };
    } finally {
      child.kill("SIGKILL");
      child.terminal?.close();
    }
  }

  /** The same store, from here. */
  async withStorage<T>(work: (storage: Storage) => Promise<T>): Promise<T> {
    const { database, storage } = await openStore({ store: this.#store, dataDir: this.dataDir }, null, false);
    try {
      return await work(storage);
    } finally {
      await database.close();
    }
  }

  /** Nothing of the developer's own but where programs are. */
  #environment(): Record<string, string> {
    return { PATH: process.env["PATH"] ?? "", HOME: this.folder, TZ: "Asia/Tokyo", SLUICE_CONFIG: this.config };
  }
}

/** A command through the admin API of a gateway elsewhere, without a process of its own. */
export async function remotely(args: readonly string[], env: Readonly<Record<string, string>> = {}, input?: string): Promise<Outcome> {
  const invocation = parseArguments(args, "1.2.3");
  if (invocation.command !== "store" && invocation.command !== "channels")
    return { code: 64, out: "", err: "text" in invocation ? invocation.text : "" };
  const gateway = remoteGateway(invocation.remote ?? {}, invocation.config, {
    url: env["SLUICE_ADMIN_URL"] ?? null,
    token: () => env["SLUICE_ADMIN_TOKEN"] ?? null,
  });
  if (gateway === null) throw new Error("no gateway is named");
  if (gateway instanceof CommandError) return { code: gateway.exitCode, out: "", err: gateway.message };
  const terminal = new Recorder(input);
  const context = {
    terminal,
    wallMs: Date.now,
    interruption: () => new AbortController().signal,
    schemaText,
    readResourceText: (file: string) => readResourceText(file, env),
  };
  const code = await (invocation.command === "store"
    ? runRemoteCommand(invocation.request, gateway, context)
    : runRemoteChannelTest(invocation.request, gateway, context));
  return { code, out: terminal.out, err: terminal.err };
}

/** Nobody is there to be asked, as in a script. */
class Recorder implements Terminal {
  readonly isInteractive = false;
  out = "";
  err = "";

  constructor(private readonly input: string | Uint8Array = "") {}

  print(text: string): void {
    this.out += `${text}\n`;
  }

  say(text: string): void {
    this.err += `${text}\n`;
  }

  progress(): void {}

  async confirm(): Promise<boolean> {
    return false;
  }

  async ask(): Promise<string> {
    return "";
  }

  async secret(): Promise<string> {
    return oneLine(Buffer.from(this.input));
  }
}

const program = ["sh", product];

const leftovers: string[] = [];
afterAll(() => {
  for (const folder of leftovers.splice(0)) rmSync(folder, { recursive: true, force: true });
}, 30_000);
