import type { ChannelSetting, Settings } from "../config/settings.ts";
import { buildSnapshot } from "../config/snapshot.ts";
import { dialects } from "../dialects/index.ts";
import { Ledger, type LedgerPorts } from "../gateway/admission/ledger.ts";
import type { Limiter } from "../gateway/admission/limiter.ts";
import { dispatch } from "../gateway/dispatch.ts";
import { Gateway } from "../gateway/gateway.ts";
import type { Ports } from "../gateway/ports.ts";
import type { ReceiptBook } from "../gateway/settlement/record.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { UpstreamState } from "../gateway/upstream-state/upstream-state.ts";
import { AuthFailures } from "../http/auth-failures.ts";
import { KeyRing } from "../http/authenticate.ts";
import type { ListenerServices } from "../http/request-context.ts";
import { listen } from "../http/server.ts";
import { UnknownRoutes } from "../http/unknown-routes.ts";
import type { Key } from "../keys/key.ts";
import { unlimited } from "../limits/limits.ts";

/** What a private gateway uses of the running one. */
export interface PrivateHost extends Pick<ListenerServices, "pressure" | "hasRoom" | "onBug" | "wallMs"> {
  readonly ports: Ports;
  /** The settings in force. */
  readonly settings: () => Settings;
  readonly randomBytes: (count: number) => Uint8Array;
}

export interface PrivateOptions {
  /** The name of its only key, for log lines and receipts that nobody keeps. */
  readonly name: string;
  readonly ports: Ports;
  readonly channels: readonly ChannelSetting[];
  /** The models of channels that are asked for theirs. */
  readonly discovered: ReadonlyMap<string, readonly string[]>;
  readonly routing: Partial<Settings["routing"]>;
  readonly observe?: NonNullable<LedgerPorts["observe"]>;
}

/**
 * A gateway on a socket of this machine: a listener and the whole path of a call. It shares nothing with the gateway that serves clients but
 * the code, the clock and the settings: it has one key, which nobody else knows; its channels are on no route of clients; its health,
 * receipts and counts are its own, and end with it.
 */
export interface PrivateGateway {
  readonly url: string;
  readonly token: string;
  readonly gateway: Gateway;
  readonly state: UpstreamState;
  readonly snapshot: Snapshot;
  readonly close: () => Promise<void>;
}

export function openPrivateGateway(host: PrivateHost, options: PrivateOptions): PrivateGateway {
  const { name, ports, channels, discovered, routing, observe } = options;
  const settings = host.settings();
  const snapshot = buildSnapshot(
    {
      ...settings,
      channels,
      keys: [],
      routing: { ...settings.routing, ...routing },
      // Only this process connects to it.
      service: { ...settings.service, connectionsPerAddressMax: null, trustedProxies: null, corsOrigins: null, openAudioLists: false },
    },
    discovered,
  );
  const state = new UpstreamState(ports);
  const ledger = new Ledger({
    limiter: noLimits,
    receipts: noReceipts,
    ratesOf: () => null,
    wallMs: host.wallMs,
    log: () => undefined,
    onBug: host.onBug,
    ...(observe === undefined ? {} : { observe }),
  });
  const gateway = new Gateway(ports, state, dialects, ledger);
  const token = Buffer.from(host.randomBytes(32)).toString("base64url");
  const current = { snapshot, ring: new KeyRing([{ key: keyNamed(name), token }], host.randomBytes(32)) };
  const listener = listen({
    ...host,
    host: "127.0.0.1",
    port: 0,
    socket: null,
    reusePort: false,
    tls: null,
    connectionsMax,
    gateway,
    serve: (call) => dispatch(call, gateway),
    current: () => current,
    ready: () => true,
    degraded: () => [],
    authFailures: new AuthFailures(ports.nowMs),
    unknownRoutes: new UnknownRoutes(ports.nowMs, () => undefined),
    onRefused: () => undefined,
    metrics: null,
    traces: () => null,
  });
  return { url: listener.url, token, gateway, state, snapshot, close: () => listener.close() };
}

/** More than a run of the lab has calls at a time. */
const connectionsMax = 128;

function keyNamed(name: string): Key {
  return {
    id: name,
    name,
    models: null,
    operations: null,
    channels: null,
    expiresMs: null,
    splits: { audio: false, input: false },
    limits: unlimited,
    group: null,
  };
}

const noLimits: Limiter = {
  precheck: () => null,
  reserveSlot: () => ({ kind: "slot", release: () => undefined }),
  admit: () => ({ kind: "grant", rateLimitStatus: null, settle: () => undefined }),
  preview: () => [],
};

const noReceipts: ReceiptBook = {
  full: false,
  open: () => Promise.resolve(),
  openDeferred: () => undefined,
  close: () => Promise.resolve(),
};
