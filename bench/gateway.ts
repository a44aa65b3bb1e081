import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
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
  readonly keys?: number;
  /** With the models of this machine. */
  readonly embedded?: boolean;
}

/** The product, started as an operator starts it. */
export async function startGateway(settings: GatewaySettings): Promise<Target> {
  const port = freePort();
  const directory = join(scratch, `gateway-${port}`);
  mkdirSync(directory, { recursive: true });
  const file = join(directory, "sluice.yaml");
  writeFileSync(file, configuration(port, settings));
  const running = start({
    name: "gateway",
    command: ["sh", join(root, "bin", "sluice"), "start", "--config", file],
    directory,
    deafAfter: "listening",
  });
  const { url } = (await running.event("listening", startsWithinMs)) as { url: string };
  return started("gateway", running, { origin: new URL(url).origin });
}

export function oneChannel(upstream: Upstream): GatewaySettings {
  return { channels: [{ name: "up", port: upstream.ports[0] ?? 0, models: Object.values(models) }] };
}

/** JSON is YAML, and needs no quoting rules of our own. What is set here beyond the addresses only lifts bounds that thousands of idle streams would meet. */
function configuration(port: number, { channels, keys = 1, embedded = false }: GatewaySettings): string {
  return JSON.stringify({
    listen: `127.0.0.1:${port}`,
    admin: "off",
    keys: Array.from({ length: keys }, (_, index) =>
      index === 0 ? { name: "bench", key: clientKey } : { name: `key-${index}`, key: `${clientKey}-${index}` },
    ),
    channels: [
      ...channels.map((channel) => ({
        name: channel.name,
        dialect: "openai",
        base_url: `http://127.0.0.1:${channel.port}/v1`,
        api_key: "x",
        models: channel.models,
        concurrency: 20_000,
        timeouts: { idle: "1h", progress: "1h", total: "2h" },
        ...(channel.speechFormats === undefined ? {} : { capabilities: { speech_formats: channel.speechFormats } }),
      })),
      ...(embedded ? [{ name: "here", provider: "embedded" }] : []),
    ],
    server: { linger: "0s", drain: "0s" },
  });
}
