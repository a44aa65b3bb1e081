import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { realServersFolder } from "./real-servers-folder.ts";
import { freePort } from "./servers/guarded.ts";

/** Servers that nobody here wrote; see docs/real-servers.md. */
export type RealServerName = keyof typeof servers;

interface Recipe {
  readonly model: string;
  readonly args: readonly string[];
  /** Answers 200 as soon as the server can serve. */
  readonly ready: string;
}

// Names of slots and models in these arguments are those of the servers' own manuals. One thread each: the machine is shared.
const servers = {
  llamafile: {
    model: "stories15m.gguf",
    args: ["--server", "--nobrowser", "--threads", "1", "--ctx-size", "8192"],
    ready: "/health",
  },
  "llama-server": {
    model: "stories15m.gguf",
    // The model was trained on 256 tokens; what it babbles beyond them is as good to be streamed.
    args: ["--threads", "1", "--ctx-size", "8192", "--override-kv", "llama.context_length=int:8192", "--slots", "--no-webui"],
    ready: "/health",
  },
  "whisper-server": {
    model: "whisper-tiny.bin",
    // Half of the audio it could look at is enough for these recordings, and takes half of the time.
    args: ["--threads", "1", "--best-of", "1", "--no-fallback", "--audio-ctx", "768", "--inference-path", "/v1/audio/transcriptions"],
    ready: "/health",
  },
} as const satisfies Readonly<Record<string, Recipe>>;

/** Why a server cannot be had here, as a remark behind the name of what is skipped; empty where it can. */
export function lacking(...names: readonly RealServerName[]): string {
  const missing = names.filter((name) => !existsSync(commandOf(name)) || !existsSync(modelOf(name)));
  return missing.length === 0 ? "" : ` (skipped: no ${missing.join(" and no ")} here; scripts/real-servers.ts fetches it)`;
}

/** Starts one on a free port of loopback, and waits until it serves. */
export async function startRealServer(name: RealServerName, options: RealServerOptions = {}): Promise<RealServer> {
  const { args, ready } = servers[name];
  const port = options.port ?? freePort();
  const command = [commandOf(name), ...args, "--model", modelOf(name), "--host", "127.0.0.1", "--port", String(port)];
  const child = Bun.spawn(["nice", "-n", "10", ...command, ...(options.args ?? [])], {
    env: { PATH: process.env["PATH"] ?? "", TMPDIR: process.env["TMPDIR"] ?? "/tmp" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const server = new RealServer(child, port);
  const answers = async (): Promise<boolean> => {
    if (!server.running) throw new Error(`${name} ended; it said:\n${server.output}`);
    const response = await fetch(`${server.origin}${ready}`).catch(() => null);
    return response?.status === 200;
  };
  try {
    await eventually(`${name} serves`, answers, 20_000);
  } catch (error) {
    await server.kill();
    throw error;
  }
  return server;
}

export interface RealServerOptions {
  readonly args?: readonly string[];
  readonly port?: number;
}

export class RealServer implements AsyncDisposable {
  readonly port: number;
  readonly origin: string;
  /** What a channel calls its base URL. */
  readonly url: string;
  /** The last of what it wrote. */
  output = "";
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  readonly #killOnExit = () => this.#child.kill("SIGKILL");

  constructor(child: Bun.Subprocess<"ignore", "pipe", "pipe">, port: number) {
    this.#child = child;
    this.port = port;
    this.origin = `http://127.0.0.1:${port}`;
    this.url = `${this.origin}/v1`;
    process.once("exit", this.#killOnExit);
    void this.#follow(child.stdout);
    void this.#follow(child.stderr);
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves when it is gone. */
  get exited(): Promise<number> {
    return this.#child.exited;
  }

  /** SIGSTOP: connections are still taken by the system, and nobody answers. */
  freeze(): void {
    this.#child.kill("SIGSTOP");
  }

  /** Whether a request has arrived that nobody has read yet, as happens to a frozen one. */
  hasUnread(): boolean {
    const address = `0100007F:${this.port.toString(16).toUpperCase().padStart(4, "0")}`;
    const sockets = readFileSync("/proc/net/tcp", "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/));
    // Its own end of an established connection, and the bytes that wait there.
    return sockets.some(([, local, , state, queues]) => local === address && state === "01" && !queues?.endsWith(":00000000"));
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
    process.off("exit", this.#killOnExit);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #follow(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) this.output = (this.output + decoder.decode(bytes, { stream: true })).slice(-outputMax);
  }
}

const outputMax = 20_000;

function commandOf(name: RealServerName): string {
  return join(realServersFolder(), "bin", name);
}

function modelOf(name: RealServerName): string {
  return join(realServersFolder(), servers[name].model);
}
