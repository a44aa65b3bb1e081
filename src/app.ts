import { tmpdir } from "node:os";
import { adapters } from "./adapters/index.ts";
import { makeCutAudio } from "./audio/split.ts";
import { makeTranscode } from "./audio/transcode.ts";
import { welcome } from "./cli/welcome.ts";
import type { Candidate } from "./channels/channel.ts";
import type { Settings } from "./config/settings.ts";
import { buildSnapshot } from "./config/snapshot.ts";
import { engineCommand } from "./engines/command.ts";
import { Engines } from "./engines/supervisor.ts";
import { Board } from "./gateway/board.ts";
import { Gateway } from "./gateway/gateway.ts";
import type { Ports } from "./gateway/ports.ts";
import { KeyRing } from "./http/key-ring.ts";
import { listen, type Current, type Listener } from "./http/server.ts";
import { makeToken } from "./keys/token.ts";
import { failure, isFailure } from "./operations/failure.ts";
import type { Operation } from "./operations/operation.ts";
import { accessLine } from "./telemetry/access.ts";
import type { Log } from "./telemetry/log.ts";
import { Timers } from "./clock/timers.ts";
import { discoverModels } from "./upstream/discover.ts";
import { Discovery } from "./upstream/discovery.ts";
import { makeSend } from "./upstream/send.ts";

/** Every part of a running gateway, built and joined. Knows all, decides nothing. */
export class App {
  private readonly gateway: Gateway;
  private readonly discovery: Discovery;
  private readonly engines: Engines;
  private readonly transcode: ReturnType<typeof makeTranscode>;
  private readonly cutAudio: ReturnType<typeof makeCutAudio>;
  private readonly madeKey: ReturnType<typeof madeClientKey> | null;
  private settings: Settings;
  private secrets: ReadonlyMap<string, string>;
  private current: Current;
  private listener: Listener | null = null;
  private stopping = false;

  constructor(
    settings: Settings,
    private readonly log: Log,
    /** What the engines of this machine may know of ours. */
    engineEnvironment: Record<string, string>,
  ) {
    this.settings = settings;
    this.secrets = settings.secrets;
    const nowMs = (): number => performance.now();
    const timers = new Timers(nowMs);
    this.engines = new Engines({
      start: (engine, socket) => engineCommand(engine, socket, settings.dataDir),
      directory: tmpdir(),
      environment: engineEnvironment,
      onEvent: (event, fields) => log.info(event, fields),
    });
    this.transcode = makeTranscode();
    this.cutAudio = makeCutAudio({ environment: engineEnvironment });
    const ports: Ports = {
      send: makeSend(
        (credential) => this.secrets.get(credential),
        nowMs,
        (path, lost) => this.engines.socketFor(path, lost),
      ),
      nowMs,
      dice: Math.random,
      after: (ms, then) => timers.after(ms, then),
      tools: { transcoder: this.transcode.make },
      cutAudio: this.cutAudio,
      progress: (fields) => log.info("part", { ...fields }),
    };
    const board = new Board(ports, (event, fields) => log.warn(event, fields));
    this.gateway = new Gateway(ports, board, adapters, (record) => log.traffic("call", accessLine(record)));
    this.discovery = new Discovery(
      (channel) => discoverModels(channel, adapters.get(channel.dialect), ports.send),
      (channel, outcome) => {
        if (isFailure(outcome)) log.warn("discovery_failed", { channel, error: outcome.kind, detail: outcome.detail });
        else log.info("discovered", { channel, models: outcome.length });
        this.rebuild();
      },
    );
    this.madeKey = settings.keys.length === 0 ? madeClientKey() : null;
    this.current = this.build();
  }

  async start(found: StartFacts): Promise<void> {
    await this.discovery.follow(this.discoveredChannels(), firstDiscoveryMs);
    this.rebuild();
    const { host, port } = this.settings.listen;
    this.listener = listen({
      host,
      port,
      reusePort: false,
      gateway: this.gateway,
      current: () => this.current,
      ready: () => !this.stopping,
      wallMs: Date.now,
      onBug: (error) => this.log.error("bug", { detail: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
    });
    process.stdout.write(`${this.greeting(this.listener.url, found)}\n`);
    this.log.info("listening", { url: this.listener.url, config: this.current.snapshot.version, channels: this.settings.channels.length });
    this.log.flush();
  }

  /** Swaps in a new configuration. Calls under way keep the one they began with, and the secrets it needs. */
  async reload(settings: Settings): Promise<void> {
    const { listen: before } = this.settings;
    if (settings.listen.host !== before.host || settings.listen.port !== before.port) {
      this.log.warn("restart_needed", { detail: "`listen` changed; it takes effect at the next start" });
    }
    this.settings = settings;
    this.secrets = new Map([...this.secrets, ...settings.secrets]);
    this.rebuild();
    await this.discovery.follow(this.discoveredChannels(), firstDiscoveryMs);
    this.rebuild();
    this.log.info("reloaded", { config: this.current.snapshot.version, channels: settings.channels.length });
  }

  /**
   * Goes down without hurting anyone: says so to the load balancer, takes calls until it has noticed, lets running
   * ones finish, and tells the last ones in-band.
   */
  async stop(lingers: boolean): Promise<void> {
    if (this.stopping) return;
    this.stopping = true;
    const { lingerMs, drainMs } = this.current.snapshot.service;
    this.log.info("stopping", { calls: this.gateway.calls.size });
    if (lingers) await sleep(lingerMs);
    const listenerEnded = this.listener?.stopListening();
    const noticeMs = Math.min(lastWordMs, drainMs);
    await Promise.race([this.gateway.calls.whenIdle(), sleep(drainMs - noticeMs)]);
    this.gateway.calls.cancelAll(failure("shutting_down", "the gateway is shutting down"));
    await Promise.race([this.gateway.calls.whenIdle(), sleep(noticeMs)]);
    // A call has ended when its last bytes were handed over; they still have to leave.
    await Promise.race([listenerEnded, sleep(lastBytesMs)]);
    await this.close();
  }

  /** Ends everything that is left, and waits for the processes that were started. */
  private async close(): Promise<void> {
    this.letGo();
    await this.engines.stop();
    this.log.info("stopped", {});
    this.log.flush();
    void this.listener?.close();
  }

  /** Somebody does not want to wait. */
  abandon(): void {
    this.letGo();
    this.engines.kill();
    this.log.info("stopped", {});
    this.log.flush();
  }

  private letGo(): void {
    this.discovery.stop();
    this.cutAudio.stop();
    this.transcode.stop();
  }

  private build(): Current {
    const snapshot = buildSnapshot(this.settings, this.discovery.models);
    const keys = this.madeKey === null || this.settings.keys.length > 0 ? this.settings.keys : [this.madeKey];
    return { snapshot, ring: new KeyRing(keys) };
  }

  private rebuild(): void {
    this.current = this.build();
    this.gateway.board.forgetStrangers(this.current.snapshot);
  }

  private discoveredChannels(): readonly Settings["channels"][number][] {
    return this.settings.channels.filter(({ models }) => models.kind === "discovered");
  }

  private greeting(url: string, found: StartFacts): string {
    return welcome({
      url,
      configFile: found.configFile,
      madeKey: this.settings.keys.length > 0 ? null : (this.madeKey?.token ?? null),
      keyNames: this.settings.keys.map(({ key }) => key.name),
      channels: this.settings.channels.map(({ name, address, models }) => ({
        name,
        host: address.host,
        models: models.kind === "any" ? null : models.kind === "map" ? models.names.size : (this.discovery.models.get(name)?.length ?? 0),
        trouble: models.kind === "discovered" ? (this.discovery.failureOf(name)?.publicMessage ?? null) : null,
      })),
      variables: found.variables,
      firstModel: this.modelFor("chat"),
      onlyLocal: this.settings.channels.every(({ address }) => address.baseUrl.startsWith("engine:")),
      tryModels: { transcription: this.modelFor("transcription"), speech: this.modelFor("speech") },
    });
  }

  /** A model to try an operation with: only where a channel is known to have it for that. */
  private modelFor(operation: Operation): string | null {
    const does = ({ deployment: { channel, model } }: Candidate): boolean => {
      const known = channel.capabilities.modelOperations.get(model);
      return known === undefined ? operation === "chat" && channel.capabilities.operations.includes("chat") : known.includes(operation);
    };
    for (const [model, { tiers }] of this.current.snapshot.routes) if (tiers.flat().some(does)) return model;
    return null;
  }
}

export interface StartFacts {
  readonly configFile: string | null;
  /** Environment variables that make a channel where there is no file. */
  readonly variables: readonly string[];
}

/** How long a start waits for channels to list their models; the rest arrives while it serves. */
const firstDiscoveryMs = 3000;
/** What the last streams get to tell their clients that the gateway goes down. */
const lastWordMs = 5000;
const lastBytesMs = 500;

function madeClientKey(): Settings["keys"][number] {
  const { token, publicId } = makeToken((bytes) => crypto.getRandomValues(new Uint8Array(bytes)));
  return {
    token,
    key: { id: publicId, name: "made at start", models: null, operations: null, expiresMs: null, splits: { audio: false, input: false } },
  };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
