import type { GatewayState } from "../../src/telemetry/metrics/state-metrics.ts";
import type { OtlpPorts, OtlpSettings, PostOutcome } from "../../src/telemetry/otlp/otlp-exporter.ts";

/** A gateway that never was, for what is made of its state. */
export const gatewayState: GatewayState = {
  version: "0.0.0",
  runtime: "bun 0",
  inFlight: 3,
  waitingForCapacity: 1,
  loopDelayMs: 12,
  channels: [{ name: "one", running: 2, runningMax: 512, isAvailable: true, isProven: true, openBreakers: 1, halfOpenBreakers: 0 }],
  journal: { bytes: 100, receipts: 2, oldestMs: 1_500, full: false },
  store: { kind: "sqlite", ok: true },
  limits: { kind: "redis", ok: false },
  engines: [{ engine: "chat", state: "backoff" }],
  droppedLogLines: 0,
  certificateExpiresMs: 1_800_000_000_000,
  process: { residentBytes: 1e8, heapBytes: 1e7, externalBytes: 1e6, cpuSeconds: 1.5, startedSeconds: 1_700_000_000 },
};

export function otlpSettings(facts: Partial<OtlpSettings> = {}): OtlpSettings {
  return {
    endpoint: "http://collector.test:4318",
    headers: { "x-token": "secret" },
    traces: true,
    metrics: true,
    serviceName: "sluice",
    conventions: "latest",
    share: 0,
    slowMs: 10_000,
    intervalMs: 60_000,
    propagate: true,
    ...facts,
  };
}

/** A collector that takes everything, and a clock that stands still until its timers are fired. */
export function otlpPorts(answer: (url: string) => PostOutcome = () => taken, facts: Partial<OtlpPorts> = {}): OtlpTestPorts {
  const timers: { ms: number; fire: () => void; isOff: boolean }[] = [];
  const requests: { url: string; headers: Readonly<Record<string, string>>; body: string }[] = [];
  const lost: string[] = [];
  return {
    post: (url, headers, body) => {
      requests.push({ url, headers, body });
      return Promise.resolve(answer(url));
    },
    nowMs: () => 5_000,
    wallMs: () => 1_700_000_005_000,
    after: (ms, then) => {
      const timer = { ms, fire: then, isOff: false };
      timers.push(timer);
      return () => {
        timer.isOff = true;
      };
    },
    dice: () => 0.5,
    onLoss: (signal, items, reason) => lost.push(`${signal} ${items} ${reason}`),
    scheme: "https",
    isListed: () => true,
    families: () => [],
    countedFromMs: 1_700_000_000_000,
    resource: { "service.version": "0.0.0", "service.instance.id": "instance" },
    requests,
    lost,
    waits: () => timers.map(({ ms }) => ms),
    fire: async (msMax = Infinity) => {
      for (const timer of timers.splice(0)) {
        if (timer.ms > msMax) timers.push(timer);
        else if (!timer.isOff) timer.fire();
      }
      // What the timers began takes a few turns.
      for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    },
    ...facts,
  };
}

export interface OtlpTestPorts extends OtlpPorts {
  readonly requests: readonly { readonly url: string; readonly headers: Readonly<Record<string, string>>; readonly body: string }[];
  readonly lost: readonly string[];
  /** How long each timer that waits would wait. */
  readonly waits: () => readonly number[];
  /** Fires all timers that wait now, or those that wait for no longer than this. */
  readonly fire: (msMax?: number) => Promise<void>;
}

export const taken: PostOutcome = { status: 200, retryAfterMs: null, body: "{}", reason: "" };
