import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installInto, packInto } from "../scripts/build/package.ts";
import { models } from "./ask.ts";
import { freePort, root, scratch, start } from "./processes.ts";
import { clientKey, started, startsWithinMs, type Target, type Upstream } from "./target.ts";

export interface GatewayChannel {
  readonly name: string;
  readonly port: number;
  readonly models: readonly string[];
  /** The only formats it speaks; without them it is asked for whatever the client wants. */
  readonly speechFormats?: readonly string[];
}

export interface GatewaySettings {
  readonly channels: readonly GatewayChannel[];
  /** Whether channels of the store may have addresses of this machine. */
  readonly allowPrivate?: boolean;
  /** Keys of the file. */
  readonly keys?: number;
  /** With the models of this machine. */
  readonly embedded?: boolean;
  /** A store that was made before; without it each gateway begins with an empty one. */
  readonly dataDir?: string;
  readonly store?: string;
  readonly state?: string;
  readonly masterKey?: string;
  readonly prices?: readonly PriceEntry[];
  /**
   * The address of a collector that traces and metrics are exported to; or nothing is counted at all. By default metrics are counted. Only a
   * restart changes whether they may be scraped: a gateway that is to switch between the two while it runs is not scraped in either.
   */
  readonly telemetry?: { readonly collector: string; readonly scraped?: boolean } | "off";
  /** How many calls it serves at a time. */
  readonly inFlight?: number;
  /** How many processes share its port. */
  readonly workers?: number;
  /** The cores it may use, such as `0-3`. */
  readonly cores?: string;
  /** The limits of the first key of the file. */
  readonly limits?: Readonly<Record<string, number>>;
  /** A file with a token for its admin API, which is off without it. */
  readonly adminTokenFile?: string;
  /** How long it keeps single receipts; the usual time without it. */
  readonly receiptsKeep?: string;
  /** Started from the package, as operators have it, and not from this checkout, which compiles its source at each start. */
  readonly isInstalled?: boolean;
  /** Its output is read on, which takes CPU time: only for who waits for something it says. */
  readonly heard?: boolean;
}

/** Dollars per million tokens. */
export interface PriceEntry {
  readonly model: string;
  readonly input: number;
  readonly output: number;
}

export interface Gateway extends Target {
  /** Where it is administered, without a path; empty where it is not. */
  readonly adminUrl: string;
  /** Gives it a new file and tells it so; resolves with the milliseconds until it says it goes by it. Only of one that is heard. */
  reload(settings: GatewaySettings): Promise<number>;
  /** The same of one whose output is not read meanwhile: it finds the file itself. Fails if something in it takes a restart. */
  follow(settings: GatewaySettings): Promise<void>;
}

/** The product, started by its own command. */
export async function startGateway(settings: GatewaySettings): Promise<Gateway> {
  const program = settings.isInstalled ? await (installed ??= install()) : join(root, "bin", "sluice");
  const port = freePort();
  const directory = join(scratch, `gateway-${port}`);
  mkdirSync(directory, { recursive: true });
  const file = join(directory, "sluice.yaml");
  writeFileSync(file, configuration(port, settings));
  const restartNeeded: string[] = [];
  const running = start({
    name: "gateway",
    command: [
      ...(settings.cores === undefined ? [] : ["taskset", "-c", settings.cores]),
      ...["sh", program, "start", "--config", file],
      ...(settings.workers === undefined ? [] : ["--workers", String(settings.workers)]),
    ],
    directory,
    environment: {
      ...(settings.masterKey === undefined ? {} : { SLUICE_MASTER_KEY: settings.masterKey }),
      ...(settings.adminTokenFile === undefined ? {} : { ADMIN_TOKEN_FILE: settings.adminTokenFile }),
    },
    ...(settings.heard ? {} : { deafAfter: "listening" }),
    onMessage: ({ event, detail }) => {
      if (event === "restart_needed") restartNeeded.push(String(detail));
    },
  });
  const { url, admin = "" } = (await running.event("listening", startsWithinMs)) as { url: string; admin?: string };
  return {
    adminUrl: admin,
    ...started("gateway", running, { origin: new URL(url).origin }),
    reload: async (next) => {
      writeFileSync(file, configuration(port, next));
      running.forget("reloaded");
      const toldMs = Date.now();
      process.kill(running.pid, "SIGHUP");
      // By its own clock, which is ours: a line waits for others before it is written.
      const { time } = (await running.event("reloaded", startsWithinMs)) as { time: string };
      return Date.parse(time) - toldMs;
    },
    follow: async (next) => {
      running.hear(true);
      const reloaded = running.event("reloaded", startsWithinMs);
      // In one step: a half-written file would be a second change.
      writeFileSync(`${file}.new`, configuration(port, next));
      renameSync(`${file}.new`, file);
      await reloaded;
      running.hear(settings.heard === true);
      if (restartNeeded.length > 0) throw new Error(`the gateway does not follow its file: ${restartNeeded.join(", ")}`);
    },
  };
}

/** Packed once for the whole run. */
let installed: Promise<string> | null = null;

async function install(): Promise<string> {
  console.error("packing and installing the gateway");
  return installInto(join(scratch, "installed"), await packInto(scratch), { withOptional: true });
}

export function oneChannel(upstream: Upstream): GatewaySettings {
  return { channels: [{ name: "up", port: upstream.ports[0] ?? 0, models: Object.values(models) }] };
}

/** The same gateway, asked with another key. */
export function withKey<Asked extends Target>(target: Asked, token: string): Asked {
  return { ...target, headers: { ...target.headers, authorization: `Bearer ${token}` } };
}

/** The settings of a channel besides its name and its key. */
export function channelEntry({ port, models, speechFormats }: GatewayChannel): Readonly<Record<string, unknown>> {
  return {
    dialect: "openai",
    base_url: `http://127.0.0.1:${port}/v1`,
    models,
    concurrency: 20_000,
    timeouts: { idle: "1h", progress: "1h", total: "2h" },
    ...(speechFormats === undefined ? {} : { capabilities: { speech_formats: speechFormats } }),
  };
}

/** JSON is YAML, and needs no quoting rules of our own. What is set here beyond the addresses only lifts bounds that thousands of idle streams would meet. */
function configuration(port: number, settings: GatewaySettings): string {
  const { channels, keys = 1, embedded = false, dataDir, store, state, prices, telemetry, inFlight, limits } = settings;
  return JSON.stringify({
    listen: `127.0.0.1:${port}`,
    admin: settings.adminTokenFile === undefined ? "off" : "127.0.0.1:0",
    data_dir: dataDir,
    store,
    state,
    prices,
    allow_private: settings.allowPrivate,
    keys: Array.from({ length: keys }, (_, index) =>
      index === 0 ? { name: "bench", key: clientKey, limits } : { name: `key-${index}`, key: `${clientKey}-${index}` },
    ),
    channels: [
      ...channels.map((channel) => ({ name: channel.name, ...channelEntry(channel), api_key: "x" })),
      ...(embedded ? [{ name: "here", provider: "embedded" }] : []),
    ],
    ...(settings.receiptsKeep === undefined ? {} : { receipts: { keep: settings.receiptsKeep } }),
    ...(telemetry === "off" || telemetry?.scraped === false ? { metrics: { enabled: false } } : {}),
    ...(typeof telemetry === "object" ? { otel: { endpoint: telemetry.collector } } : {}),
    server: { linger: "0s", drain: "0s", ...(inFlight === undefined ? {} : { in_flight: inFlight }) },
  });
}
