import type { LiveCall } from "../telemetry/live/live-call.ts";
import { callAsClient, type LabClientView } from "./lab-client.ts";
import { openLabGateway, type LabChannelState, type LabGateway } from "./lab-gateway.ts";
import { brokenPromises } from "./lab-promise.ts";
import type { PrivateHost } from "./private-gateway.ts";
import type { LabMode, LabScenario } from "./scenarios.ts";

export interface LabRunRequest {
  readonly scenario: LabScenario;
  readonly mode: LabMode;
  readonly calls: number;
  /** Calls that begin in a second. */
  readonly rate: number;
}

/** A run as it stands. */
export interface LabRunState {
  readonly id: string;
  readonly request: LabRunRequest;
  readonly state: "running" | "ended" | "stopped";
  readonly startedMs: number;
  readonly calls: readonly LabCallState[];
  readonly channels: readonly LabChannelState[];
  /** What was not as promised; null while it runs, and if it was stopped. */
  readonly broken: readonly string[] | null;
}

export interface LabCallState {
  /** Null until the gateway has admitted it. */
  readonly call: LiveCall | null;
  /** Null while it runs. */
  readonly client: LabClientView | null;
}

/** Calls of a scenario, at a steady rate, through a gateway of their own. */
export class LabRun {
  readonly finished: Promise<void>;
  private readonly startedMs: number;
  private readonly clients: (LabClientView | null)[] = [];
  private readonly cooled = new Set<string>();
  private readonly stopping = new AbortController();
  private gateway: LabGateway | null = null;
  private last: Pick<LabRunState, "calls" | "channels" | "broken"> | null = null;
  private wake: () => void = () => undefined;

  constructor(
    readonly id: string,
    readonly request: LabRunRequest,
    private readonly host: PrivateHost,
  ) {
    this.startedMs = host.wallMs();
    this.finished = this.run().catch((error: unknown) => {
      this.last ??= { calls: [], channels: [], broken: ["The run could not be made; the log says why."] };
      host.onBug(error);
    });
  }

  get isRunning(): boolean {
    return this.last === null;
  }

  get state(): LabRunState {
    const { id, request, startedMs } = this;
    const now = this.last ?? { calls: this.calls(), channels: this.gateway?.channels() ?? [], broken: null };
    const state = this.isRunning ? "running" : now.broken === null ? "stopped" : "ended";
    return { id, request, startedMs, state, ...now };
  }

  /** Ends the calls that run, and makes no more. */
  stop(): void {
    this.stopping.abort();
    this.wake();
  }

  private async run(): Promise<void> {
    const { scenario, calls, rate } = this.request;
    const gateway = await openLabGateway(scenario, this.host);
    this.gateway = gateway;
    const stopped = this.stopping.signal;
    // Whatever the settings in force are, a run ends.
    const cancelLimit = this.host.ports.after((calls / rate) * 1000 + patienceMs, () => this.stop());
    try {
      const running: Promise<void>[] = [];
      for (let at = 0; at < calls && !stopped.aborted; at++) {
        if (at > 0) await this.wait(1000 / rate);
        if (at >= atOnceMax) await running[at - atOnceMax];
        if (!stopped.aborted) running.push(this.call(gateway, at));
      }
      await Promise.all(running);
      await gateway.idle();
      this.last = { calls: this.calls(), channels: gateway.channels(), broken: stopped.aborted ? null : this.broken() };
    } finally {
      cancelLimit();
      await gateway.close();
    }
  }

  private async call(gateway: LabGateway, at: number): Promise<void> {
    const { url, token } = gateway;
    this.clients[at] = null;
    const requestId = requestIdOf(at);
    this.clients[at] = await callAsClient({
      url,
      token,
      requestId,
      operation: this.request.scenario.operation,
      stream: this.request.mode === "streamed",
      signal: this.stopping.signal,
    });
    for (const { name, breaker } of gateway.channels()) if (breaker !== null) this.cooled.add(name);
  }

  private calls(): readonly LabCallState[] {
    const known = this.gateway?.calls();
    return this.clients.map((client, at) => ({ call: known?.get(requestIdOf(at)) ?? null, client }));
  }

  private broken(): readonly string[] {
    const ended = this.calls().flatMap(({ call, client }) => (client === null ? [] : [{ call, client }]));
    return brokenPromises(this.request.scenario.promise, ended, this.cooled);
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.host.ports.after(ms, resolve);
      this.wake = () => {
        cancel();
        resolve();
      };
    });
  }
}

function requestIdOf(at: number): string {
  return `lab-call-${at + 1}`;
}

/** How long the last calls may take. */
const patienceMs = 120_000;
const atOnceMax = 50;
