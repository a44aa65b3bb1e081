import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { product } from "./product.ts";

/** Starts the real product as a process of its own and waits until it listens. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), "sluice-test-")));
  const file = join(directory, "sluice.yaml");
  await writeFile(file, configText(options.config, directory));
  const command = options.command ?? ["sh", product];
  const child = Bun.spawn([...command, "start", "--config", file, ...(options.args ?? [])], {
    cwd: directory,
    env: { ...quietEnvironment(), ...options.env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const gateway = new Gateway(child, directory, options.directory === undefined);
  try {
    await gateway.ready(options.readyWithinMs ?? 30_000);
  } catch (error) {
    await gateway.kill();
    throw error;
  }
  return gateway;
}

export interface GatewayOptions {
  /** An object gets a free port, no admin listener and a data directory of its own unless it says otherwise. */
  readonly config: Readonly<Record<string, unknown>> | string;
  /** Beside PATH, HOME and the like; nothing else of the test's own environment is passed on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** Where configuration and data live; given, it is kept, so that another process can start on it. */
  readonly directory?: string;
  /** In place of the product. */
  readonly command?: readonly string[];
  readonly readyWithinMs?: number;
}

export type LogLine = Readonly<Record<string, unknown>>;

export class Gateway implements AsyncDisposable {
  /** Without a path, such as `http://127.0.0.1:4400`. */
  url = "";
  /** Where it is administered, also without a path; empty where it is not. */
  adminUrl = "";
  readonly pid: number;
  readonly directory: string;
  /** Resolves with the exit code, or with 128 and the signal's number. */
  readonly exited: Promise<number>;
  /** Every line of output that is a JSON object. */
  readonly logs: LogLine[] = [];
  /** All output, both streams in the order they came. */
  text = "";
  readonly #accessLines: LogLine[] = [];
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  readonly #ownsDirectory: boolean;
  readonly #drained: Promise<unknown>;
  readonly #killOnExit = () => this.#child.kill("SIGKILL");

  constructor(child: Bun.Subprocess<"ignore", "pipe", "pipe">, directory: string, ownsDirectory: boolean) {
    this.#child = child;
    this.pid = child.pid;
    this.directory = directory;
    this.#ownsDirectory = ownsDirectory;
    this.exited = child.exited;
    this.#drained = Promise.all([this.#follow(child.stdout), this.#follow(child.stderr)]);
    process.once("exit", this.#killOnExit);
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async ready(withinMs: number): Promise<void> {
    const listening = () => this.logs.find((line) => line["event"] === "listening");
    await eventually("listening", () => listening() !== undefined || !this.running, withinMs).catch(() => {});
    if (!this.running) await this.#drained;
    const line = listening();
    const state = this.running ? "does not listen" : `ended with ${this.#child.exitCode}`;
    if (line === undefined) throw new Error(`the gateway ${state}; it said:\n${this.text}`);
    this.url = String(line["url"]);
    this.adminUrl = typeof line["admin"] === "string" ? line["admin"] : "";
  }

  /** One per call, as the product logs it. */
  accessLines(): readonly LogLine[] {
    return [...this.#accessLines];
  }

  async waitForLog(holds: (line: LogLine) => boolean, withinMs = 10_000): Promise<LogLine> {
    await eventually("a line of the log", () => this.logs.some(holds), withinMs);
    return this.logs.find(holds) as LogLine;
  }

  /** Replaces the file in one step; what happens then is up to the product, or to a SIGHUP. */
  async rewriteConfig(config: GatewayOptions["config"]): Promise<void> {
    const file = join(this.directory, "sluice.yaml");
    await writeFile(`${file}.new`, configText(config, this.directory));
    await rename(`${file}.new`, file);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** SIGTERM, and SIGKILL to one that has not gone in time. Resolves with the exit code. */
  async stop(graceMs = 15_000): Promise<number> {
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), graceMs);
    const code = await this.exited;
    clearTimeout(timer);
    await this.#cleanUp();
    return code;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited;
    await this.#cleanUp();
  }

  /** Resident memory in bytes; null where there is no /proc. */
  rss(): number | null {
    const kilobytes = /VmRSS:\s+(\d+)/.exec(this.#proc("status") ?? "")?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) * 1_024;
  }

  /** Open file descriptors; null where there is no /proc. */
  fds(): number | null {
    try {
      return readdirSync(`/proc/${this.pid}/fd`).length;
    } catch {
      return null;
    }
  }

  /** At once: a test that wants to see a shutdown asks for it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #proc(name: string): string | null {
    try {
      return readFileSync(`/proc/${this.pid}/${name}`, "utf8");
    } catch {
      return null;
    }
  }

  async #follow(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    let unfinished = "";
    for await (const bytes of stream) {
      const piece = decoder.decode(bytes, { stream: true });
      this.text += piece;
      const lines = (unfinished + piece).split("\n");
      unfinished = lines.pop() ?? "";
      this.#log(lines);
    }
    this.#log([unfinished]);
  }

  #log(lines: readonly string[]): void {
    const logged = lines.flatMap(logLine);
    this.logs.push(...logged);
    this.#accessLines.push(...logged.filter((line) => line["event"] === "call"));
  }

  async #cleanUp(): Promise<void> {
    process.off("exit", this.#killOnExit);
    await this.#drained;
    if (this.#ownsDirectory) await rm(this.directory, { recursive: true, force: true });
  }
}

function logLine(line: string): LogLine[] {
  if (!line.startsWith("{")) return [];
  try {
    return [JSON.parse(line) as LogLine];
  } catch {
    return [];
  }
}

/** JSON is YAML. */
function configText(config: GatewayOptions["config"], directory: string): string {
  if (typeof config === "string") return config;
  const defaults = { listen: "127.0.0.1:0", admin: "off", data_dir: join(directory, "data") };
  return JSON.stringify({ ...defaults, ...config }, null, 2);
}

/** Without the keys, proxies and settings that a developer's own environment may hold. */
function quietEnvironment(): Record<string, string> {
  const kept = ["PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH"];
  return Object.fromEntries(
    kept.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
