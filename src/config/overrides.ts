import { readKey } from "./keys/key.ts";
import { parseListen, parseListenOrSocket, portBehind, portMax, type Listen } from "./listen.ts";
import type { Settings } from "./settings.ts";

/** The addresses given on the command line. */
export interface ListenArguments {
  readonly listen: string | null;
  readonly admin: string | null;
}

export interface ListenOverrides {
  /** `undefined`: not given, so the settings apply. */
  readonly listen: Listen | undefined;
  readonly admin: Listen | null | undefined;
}

/** The parsed addresses, or a message about what is wrong with them. */
export function listenOverrides({ listen, admin }: ListenArguments): ListenOverrides | string {
  const clientListen = listen === null ? undefined : (parseListenOrSocket(listen) ?? null);
  if (clientListen === null) return noPort("--listen", listen) ?? "--listen takes HOST:PORT, such as 127.0.0.1:4400, or unix:PATH";
  if (admin === null || admin === "off") return { listen: clientListen, admin: admin === null ? undefined : null };
  const adminListen = parseListen(admin);
  if (adminListen !== null) return { listen: clientListen, admin: adminListen };
  return noPort("--admin", admin) ?? "--admin takes HOST:PORT, such as 127.0.0.1:4401, or off";
}

function noPort(option: string, given: string | null): string | null {
  const port = portBehind(given ?? "");
  return port === null || Number(port) <= portMax ? null : `${option}: there is no port ${port.slice(0, 12)}. Ports go up to ${portMax}.`;
}

/**
 * Applies the addresses of the command line. If only the clients' address is given and the admin API has its default address, the admin
 * API moves to the next port, so that two gateways on one machine do not collide.
 */
export function overridden(settings: Settings, { listen, admin }: ListenOverrides): Settings {
  const clientListen = listen ?? settings.listen;
  if (admin !== undefined) return { ...settings, listen: clientListen, admin };
  const isDefault = settings.admin !== null && settings.admin.host === "127.0.0.1" && settings.admin.port === adminPort;
  if (listen === undefined || listen.path !== undefined || !isDefault) return { ...settings, listen: clientListen };
  return { ...settings, listen: clientListen, admin: { host: "127.0.0.1", port: listen.port === 0 ? 0 : listen.port + 1 } };
}

const adminPort = 4401;

/** The settings of a gateway that has one channel, a key for the test and no data of its own. */
export function channelTestSettings(settings: Settings, channel: string, token: string, dataDir: string): Settings {
  const { key } = readKey({ name: "channels-test", key: token, long_audio: "off", long_input: "off" }, ["keys", 0], 0, new Set());
  return {
    ...settings,
    listen: { host: "127.0.0.1", port: 0 },
    admin: null,
    tls: null,
    store: "sqlite",
    state: "memory",
    otel: null,
    webhooks: [],
    dataDir,
    channels: settings.channels.filter(({ name }) => name === channel),
    groups: [],
    keys: [key],
  };
}
