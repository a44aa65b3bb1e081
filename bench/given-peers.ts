import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Asked, ask, models } from "./ask.ts";
import { answers, freePort, scratch, start } from "./processes.ts";
import { clientHeaders, clientKey, started, type Target, type Upstream } from "./target.ts";

/** Gateways that are measured where their program is given: they are not ours to install. */
export const givenPeers = ["busbar", "bifrost", "litellm"] as const;
export type GivenPeer = (typeof givenPeers)[number];

/** One of them, ready to be asked. */
export interface StartedPeer extends Target {
  /** The request of the bench, as this gateway takes it. */
  readonly asked: Asked;
  /** Whether it checks a key. */
  readonly keyed: boolean;
}

/** Starts a program with a configuration for this upstream, with a key that it checks or without one. */
export async function startGivenPeer(name: GivenPeer, program: string, upstream: Upstream, withKey: boolean): Promise<StartedPeer> {
  if (Bun.which(program) === null && !existsSync(program)) throw new Error(`there is no program ${program}`);
  const port = freePort();
  const directory = join(scratch, `${name}-${port}`);
  mkdirSync(directory, { recursive: true });
  return { ...(await starters[name]({ program, port, directory, upstream, withKey })), keyed: withKey };
}

/** It answers what the upstream said; and one that checks a key lets nobody else through to the upstream. */
export async function provePeer({ origin, headers, asked, keyed }: StartedPeer, upstream: Upstream): Promise<void> {
  const body = asked.body.kind === "json" ? asked.body.text : "";
  const post = (credentials: Readonly<Record<string, string>>) =>
    fetch(origin + asked.path, {
      method: asked.method,
      headers: { "content-type": "application/json", ...credentials },
      body,
      signal: AbortSignal.timeout(30_000),
    });
  const [expected, response] = await Promise.all([
    fetch(upstream.origin + asked.path, { method: "POST", body: JSON.stringify({ model: models.json }) }),
    post(headers),
  ]);
  const said = await response.text();
  if (response.status !== 200 || contentOf(said) !== contentOf(await expected.text()))
    throw new Error(`it answered ${response.status}: ${said.slice(0, 300)}`);
  if (!keyed) return;
  const { calls } = await upstream.counters();
  for (const credentials of [{}, { authorization: `${headers["authorization"]}x` }]) {
    const { status } = await post(credentials);
    if (status < 400) throw new Error(`it answered ${status} to a request without its key`);
  }
  if ((await upstream.counters()).calls !== calls) throw new Error("it passed a request without its key on");
}

function contentOf(answer: string): string {
  const { choices } = JSON.parse(answer) as { choices: readonly { message: { content: string } }[] };
  return choices[0]?.message.content ?? "";
}

type Startable = Omit<StartedPeer, "keyed">;

interface PeerStart {
  readonly program: string;
  readonly port: number;
  readonly directory: string;
  readonly upstream: Upstream;
  readonly withKey: boolean;
}

const starters: Readonly<Record<GivenPeer, (peer: PeerStart) => Promise<Startable>>> = {
  busbar: startBusbar,
  bifrost: startBifrost,
  litellm: startLitellm,
};

/**
 * By docs/configuration.md of GetBusbar/busbar 1.5.5. Its keys are made by its admin API, and carry the limits of a group. What they use
 * is counted in memory: stores that keep it are plugins, which are not part of the program. It has no log of requests unless it is given
 * somewhere to send them, and counts no metrics unless it is told to.
 */
async function startBusbar({ program, port, directory, upstream, withKey }: PeerStart): Promise<Startable> {
  const adminPort = freePort();
  const [config, signing] = [join(directory, "config.yaml"), join(directory, "signing.key")];
  if (withKey) writeFileSync(signing, Bun.spawnSync([program, "--generate-signing-key"]).stdout, { mode: 0o600 });
  writeFileSync(
    join(directory, "providers.yaml"),
    JSON.stringify({ bench: { protocol: "openai", base_url: upstream.origin, error_map: {} } }),
  );
  writeFileSync(
    config,
    JSON.stringify({
      listen: `127.0.0.1:${port}`,
      admin_listen: `127.0.0.1:${adminPort}`,
      providers_file: "providers.yaml",
      "identity-providers": { "admin-tokens": { module: "admin-tokens", token: { env: "BENCH_ADMIN_TOKEN" } } },
      auth: { chain: withKey ? ["keys"] : [], admin_auth: ["admin-tokens"], ...(withKey ? { signing_key: { file: signing } } : {}) },
      providers: { bench: { api_key: { env: "BENCH_UPSTREAM_KEY" } } },
      models: { [models.json]: { provider: "bench" } },
      ...(withKey
        ? {
            groups: {
              bench: {
                limits: [
                  { requests: farRequests, per: "minute" },
                  { tokens: farTokens, per: "minute" },
                  { concurrent: 1_000_000 },
                  { budget: farDollars * 100, per: "month" },
                ],
              },
            },
            rate_card: { [models.json]: { input_utok: 1, output_utok: 4 } },
          }
        : {}),
    }),
  );
  const running = start({
    name: "busbar",
    command: [program],
    directory,
    environment: { BUSBAR_CONFIG: config, BENCH_UPSTREAM_KEY: "x", BENCH_ADMIN_TOKEN: adminToken },
  });
  const origin = `http://127.0.0.1:${port}`;
  await answers(running, `${origin}/healthz`, peerStartsWithinMs);
  const token = withKey ? await busbarKey(`http://127.0.0.1:${adminPort}/api/v1/admin/keys`) : clientKey;
  return { ...started("peer", running, { origin, headers: { authorization: `Bearer ${token}` } }), asked: ask("json") };
}

async function busbarKey(url: string): Promise<string> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "x-admin-token": adminToken, "content-type": "application/json" },
    body: JSON.stringify({ name: "bench", group: "bench" }),
  });
  const { token, secret } = (await response.json()) as { token?: string; secret?: string };
  const made = token ?? secret;
  if (made === undefined) throw new Error(`busbar made no key: ${response.status}`);
  return made;
}

/**
 * By transports/config.schema.json of maximhq/bifrost 1.6.11. A virtual key is one of the file, with limits and a budget, which it keeps
 * in SQLite. With it, each call is logged into SQLite, as it is by default, but without what was said, which receipts have not either.
 * Metrics are counted and requests are written to its output with a key and without, as they are by default. It does not start where it cannot fetch a list of prices from the
 * network, so it is given one of its own, which is much shorter: this makes its memory look smaller.
 */
async function startBifrost({ program, port, directory, upstream, withKey }: PeerStart): Promise<Startable> {
  const virtualKey = `sk-bf-${clientKey}`;
  const file = (name: string) => `file://${join(directory, name)}`;
  const price = { provider: "openai", mode: "chat", input_cost_per_token: 1e-6, output_cost_per_token: 4e-6 };
  writeFileSync(join(directory, "prices.json"), JSON.stringify({ [models.json]: price }));
  for (const name of ["parameters.json", "tools.json"]) writeFileSync(join(directory, name), "{}");
  writeFileSync(
    join(directory, "config.json"),
    JSON.stringify({
      client: { enable_logging: withKey, disable_content_logging: true, enforce_auth_on_inference: withKey },
      config_store: { enabled: withKey, type: "sqlite", config: { path: join(directory, "config.db") } },
      logs_store: { enabled: withKey, type: "sqlite", config: { path: join(directory, "logs.db") } },
      framework: {
        pricing: { pricing_url: file("prices.json"), model_parameters_url: file("parameters.json"), mcp_library_url: file("tools.json") },
      },
      providers: {
        openai: {
          keys: [{ id: "bench", name: "bench", value: "x", models: ["*"], weight: 1 }],
          network_config: { base_url: upstream.origin },
        },
      },
      ...(withKey
        ? {
            governance: {
              budgets: [{ id: "bench", max_limit: farDollars, reset_duration: "1M", virtual_key_id: "bench" }],
              rate_limits: [
                {
                  id: "bench",
                  request_max_limit: farRequests,
                  request_reset_duration: "1m",
                  token_max_limit: farTokens,
                  token_reset_duration: "1m",
                },
              ],
              virtual_keys: [
                {
                  id: "bench",
                  name: "bench",
                  value: virtualKey,
                  is_active: true,
                  rate_limit_id: "bench",
                  provider_configs: [{ provider: "openai", allowed_models: ["*"], key_ids: ["bench"], weight: 1 }],
                },
              ],
            },
          }
        : {}),
    }),
  );
  const running = start({
    name: "bifrost",
    command: [program, "-app-dir", directory, "-host", "127.0.0.1", "-port", String(port)],
    directory,
  });
  const origin = `http://127.0.0.1:${port}`;
  await answers(running, `${origin}/health`, peerStartsWithinMs);
  const { body, ...asked } = ask("json");
  // It finds the provider by the first part of the model's name.
  const text = body.kind === "json" ? body.text.replace(`"${models.json}"`, `"openai/${models.json}"`) : "";
  const headers = withKey ? { authorization: `Bearer ${virtualKey}` } : clientHeaders;
  return { ...started("peer", running, { origin, headers }), asked: { ...asked, body: { kind: "json", text } } };
}

/**
 * By docs.litellm.ai/docs/proxy/configs, for version 1.106. Without PostgreSQL, its only key is the master key, which has no limits and no
 * budget, and nothing is kept of a call.
 */
async function startLitellm({ program, port, directory, upstream, withKey }: PeerStart): Promise<Startable> {
  const config = join(directory, "config.yaml");
  writeFileSync(
    config,
    JSON.stringify({
      model_list: [
        { model_name: models.json, litellm_params: { model: `openai/${models.json}`, api_base: `${upstream.origin}/v1`, api_key: "x" } },
      ],
      ...(withKey
        ? { general_settings: { master_key: `sk-${clientKey}` } }
        : { general_settings: { dangerously_permit_weak_or_unset_master_key: true } }),
    }),
  );
  const running = start({
    name: "litellm",
    command: [program, "--config", config, "--host", "127.0.0.1", "--port", String(port), "--num_workers", "1"],
    directory,
    // Prices come with it; it would otherwise ask the network for newer ones.
    environment: { LITELLM_LOCAL_MODEL_COST_MAP: "True", LITELLM_LOG: "ERROR", LITELLM_MODE: "PRODUCTION" },
  });
  const origin = `http://127.0.0.1:${port}`;
  await answers(running, `${origin}/health/liveliness`, peerStartsWithinMs);
  const headers = { authorization: `Bearer ${withKey ? `sk-${clientKey}` : clientKey}` };
  return { ...started("peer", running, { origin, headers }), asked: ask("json") };
}

/** So far away that no call meets them, and counted all the same. */
const [farRequests, farTokens, farDollars] = [1_000_000_000, 1_000_000_000_000, 1_000_000];
const adminToken = "bench-admin-token-0123456789abcdef0123456789abcdef";
/** A Python program imports for half a minute on a busy machine. */
const peerStartsWithinMs = 120_000;
