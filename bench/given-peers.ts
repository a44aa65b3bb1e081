import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Asked, ask, models } from "./ask.ts";
import { answers, freePort, type Running, scratch, start } from "./processes.ts";
import { clientHeaders, clientKey, started, type Target, type Upstream } from "./target.ts";

/** Gateways that are measured where their program is given: they are not ours to install. */
export const givenPeers = ["busbar", "bifrost", "litellm"] as const;
export type GivenPeer = (typeof givenPeers)[number];

/** One of them, ready to be asked. */
export interface StartedPeer extends Target {
  /** The request of the bench, as this gateway takes it. */
  readonly asked: Asked;
}

/** Starts a program with a configuration for this upstream, with a key that it checks or without one. */
export async function startGivenPeer(name: GivenPeer, program: string, upstream: Upstream, withKey: boolean): Promise<StartedPeer> {
  if (Bun.which(program) === null && !existsSync(program)) throw new Error(`there is no program ${program}`);
  const port = freePort();
  const directory = join(scratch, `${name}-${port}`);
  mkdirSync(directory, { recursive: true });
  return starters[name]({ program, port, directory, upstream, withKey });
}

interface PeerStart {
  readonly program: string;
  readonly port: number;
  readonly directory: string;
  readonly upstream: Upstream;
  readonly withKey: boolean;
}

const starters: Readonly<Record<GivenPeer, (peer: PeerStart) => Promise<StartedPeer>>> = {
  busbar: startBusbar,
  bifrost: startBifrost,
  litellm: startLitellm,
};

/** By docs/configuration.md of GetBusbar/busbar 1.5.3. Its keys are made by its admin API, and carry the limits of a group. */
async function startBusbar({ program, port, directory, upstream, withKey }: PeerStart): Promise<StartedPeer> {
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
      groups: {
        bench: {
          limits: [{ requests: 1_000_000_000, per: "minute" }, { tokens: 1_000_000_000_000, per: "minute" }, { concurrent: 10_000 }],
        },
      },
    }),
  );
  const running = start({
    name: "busbar",
    command: [program],
    directory,
    environment: { BUSBAR_CONFIG: config, BUSBAR_STATE_FILE: "", BENCH_UPSTREAM_KEY: "x", BENCH_ADMIN_TOKEN: adminToken },
  });
  const origin = `http://127.0.0.1:${port}`;
  await answered(running, `${origin}/healthz`);
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

/** By docs.getbifrost.ai/deployment-guides/config-json. A virtual key of its governance plugin is one of the file. */
async function startBifrost({ program, port, directory, upstream, withKey }: PeerStart): Promise<StartedPeer> {
  const virtualKey = `sk-bf-${clientKey}`;
  writeFileSync(
    join(directory, "config.json"),
    JSON.stringify({
      client: { enable_logging: false, drop_excess_requests: false, enforce_governance_header: withKey },
      config_store: { enabled: withKey, type: "sqlite", config: { path: join(directory, "config.db") } },
      providers: {
        openai: {
          keys: [{ id: "bench", name: "bench", value: "x", models: ["*"], weight: 1 }],
          network_config: { base_url: upstream.origin },
        },
      },
      ...(withKey
        ? {
            governance: {
              virtual_keys: [
                {
                  id: "bench",
                  name: "bench",
                  value: virtualKey,
                  is_active: true,
                  provider_configs: [{ provider: "openai", allowed_models: ["*"], key_ids: ["bench"], weight: 1 }],
                },
              ],
            },
            plugins: [{ name: "governance", enabled: true, config: { is_vk_mandatory: true } }],
          }
        : {}),
    }),
  );
  const running = start({
    name: "bifrost",
    command: [program, "-app-dir", directory, "-host", "127.0.0.1", "-port", String(port), "-log-level", "error"],
    directory,
  });
  const origin = `http://127.0.0.1:${port}`;
  await answered(running, `${origin}/health`);
  const { body, ...asked } = ask("json");
  // It finds the provider by the first part of the model's name.
  const text = body.kind === "json" ? body.text.replace(`"${models.json}"`, `"openai/${models.json}"`) : "";
  const headers = withKey ? { authorization: `Bearer ${virtualKey}` } : clientHeaders;
  return { ...started("peer", running, { origin, headers }), asked: { ...asked, body: { kind: "json", text } } };
}

/** By docs.litellm.ai/docs/proxy/configs. Without a database, its only key is the master key. */
async function startLitellm({ program, port, directory, upstream, withKey }: PeerStart): Promise<StartedPeer> {
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
  await answered(running, `${origin}/health/liveliness`);
  const headers = { authorization: `Bearer ${withKey ? `sk-${clientKey}` : clientKey}` };
  return { ...started("peer", running, { origin, headers }), asked: ask("json") };
}

async function answered(running: Running, url: string): Promise<void> {
  await Promise.race([
    answers(url, peerStartsWithinMs),
    running.exited.then((code) => Promise.reject(new Error(`it ended with code ${code}`))),
  ]);
}

const adminToken = "bench-admin-token-0123456789abcdef0123456789abcdef";
/** A Python program imports for half a minute on a busy machine. */
const peerStartsWithinMs = 120_000;
