import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Stands in for the program of another gateway that the bench is given: `KIND BEHAVIOUR ARGUMENTS…`. It takes its settings from where that
 * program does, passes chats on to the upstream that they name and, with a key, refuses others; or it does what its behaviour says. What it
 * was started with is left in `given.json` beside its configuration.
 */
export const peerBehaviours = ["well", "wrong", "broken", "open", "leaky", "keyless", "exits"] as const;
export type PeerBehaviour = (typeof peerBehaviours)[number];

interface StandIn {
  readonly port: number;
  readonly health: string;
  /** Where a chat for this model goes; null for a model that is not configured. */
  readonly upstreamOf: (model: string) => { readonly url: string; readonly model: string } | null;
  /** Null where everybody is served. */
  readonly tokens: ReadonlySet<string> | null;
}

const [kind = "", behaviour = "", ...args] = process.argv.slice(2);
if (import.meta.main) run();

function run(): void {
  if (behaviour === "exits") {
    console.error("this program is not for this machine");
    process.exit(3);
  }
  if (args.includes("--generate-signing-key")) {
    console.log("a key to sign with");
    return;
  }
  const own = Object.entries(process.env).filter(([name]) => /^(?:BUSBAR|BENCH|LITELLM)_/.test(name));
  writeFileSync("given.json", JSON.stringify({ args, environment: Object.fromEntries(own) }));
  serve(kind === "busbar" ? busbar() : kind === "bifrost" ? bifrost() : litellm());
}

function serve({ port, health, upstreamOf, tokens }: StandIn): void {
  Bun.serve({
    hostname: "127.0.0.1",
    port,
    fetch: async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === health) return new Response("ok");
      if (pathname !== "/v1/chat/completions") return new Response(null, { status: 404 });
      const asked = (await request.json()) as { readonly model: string };
      const target = upstreamOf(asked.model);
      if (target === null) return Response.json({ error: { message: `no model ${asked.model}` } }, { status: 400 });
      const passedOn = () => fetch(target.url, { method: "POST", body: JSON.stringify({ ...asked, model: target.model }) });
      const isKnown = tokens === null || tokens.has(request.headers.get("authorization")?.replace(/^Bearer /, "") ?? "");
      if (!isKnown && behaviour !== "open") {
        if (behaviour === "leaky") await passedOn();
        return Response.json({ error: { message: "no such key" } }, { status: 401 });
      }
      if (behaviour === "wrong") return Response.json({ choices: [{ message: { content: "something else" } }] });
      if (behaviour === "broken") return new Response("<html>out of order</html>", { status: 502 });
      const response = await passedOn();
      return new Response(await response.text(), { status: response.status, headers: { "content-type": "application/json" } });
    },
  });
}

function busbar(): StandIn {
  const file = process.env["BUSBAR_CONFIG"] ?? "";
  const config = read(file) as BusbarConfig;
  const providers = read(join(dirname(file), config.providers_file)) as Readonly<Record<string, { readonly base_url: string }>>;
  const checksKeys = config.auth.chain.includes("keys");
  if (checksKeys && readFileSync(config.auth.signing_key?.file ?? "", "utf8") === "") throw new Error("the key to sign with is empty");
  const tokens = new Set<string>();
  const adminToken = process.env[config["identity-providers"]["admin-tokens"].token.env];
  Bun.serve({
    hostname: "127.0.0.1",
    port: portIn(config.admin_listen),
    fetch: async (request) => {
      const { group } = (await request.json()) as { readonly group: string };
      const isAdmin = request.headers.get("x-admin-token") === adminToken && new URL(request.url).pathname === "/api/v1/admin/keys";
      if (!isAdmin || config.groups?.[group] === undefined || behaviour === "keyless") return Response.json({}, { status: 403 });
      tokens.add("made-by-the-admin-api");
      return Response.json({ token: "made-by-the-admin-api" });
    },
  });
  return {
    port: portIn(config.listen),
    health: "/healthz",
    upstreamOf: (model) => {
      const provider = providers[config.models[model]?.provider ?? ""];
      return provider === undefined ? null : { url: `${provider.base_url}/v1/chat/completions`, model };
    },
    tokens: checksKeys ? tokens : null,
  };
}

interface BusbarConfig {
  readonly listen: string;
  readonly admin_listen: string;
  readonly providers_file: string;
  readonly "identity-providers": { readonly "admin-tokens": { readonly token: { readonly env: string } } };
  readonly auth: { readonly chain: readonly string[]; readonly signing_key?: { readonly file: string } };
  readonly models: Readonly<Record<string, { readonly provider: string }>>;
  readonly groups?: Readonly<Record<string, object>>;
}

function bifrost(): StandIn {
  const { client, framework, providers, governance } = read(join(argument("-app-dir"), "config.json")) as BifrostConfig;
  for (const url of Object.values(framework.pricing))
    if (!existsSync(fileURLToPath(url))) throw new Error(`${url} cannot be fetched, and prices are needed to start`);
  const keys = governance?.virtual_keys.filter((key) => key.is_active) ?? [];
  return {
    port: Number(argument("-port")),
    health: "/health",
    upstreamOf: (model) => {
      const [provider = "", ...rest] = model.split("/");
      const known = providers[provider];
      return known === undefined ? null : { url: `${known.network_config.base_url}/v1/chat/completions`, model: rest.join("/") };
    },
    tokens: client.enforce_auth_on_inference ? new Set(keys.map(({ value }) => value)) : null,
  };
}

interface BifrostConfig {
  readonly client: { readonly enforce_auth_on_inference: boolean };
  readonly framework: { readonly pricing: Readonly<Record<string, string>> };
  readonly providers: Readonly<Record<string, { readonly network_config: { readonly base_url: string } }>>;
  readonly governance?: { readonly virtual_keys: readonly { readonly value: string; readonly is_active: boolean }[] };
}

function litellm(): StandIn {
  const { model_list: list, general_settings: general } = read(argument("--config")) as LitellmConfig;
  const { master_key: key } = general;
  if (key === undefined && general.dangerously_permit_weak_or_unset_master_key !== true) throw new Error("there is no master key");
  return {
    port: Number(argument("--port")),
    health: "/health/liveliness",
    upstreamOf: (model) => {
      const params = list.find(({ model_name: name }) => name === model)?.litellm_params;
      return params === undefined ? null : { url: `${params.api_base}/chat/completions`, model: params.model.replace(/^openai\//, "") };
    },
    tokens: key === undefined ? null : new Set([key]),
  };
}

interface LitellmConfig {
  readonly model_list: readonly {
    readonly model_name: string;
    readonly litellm_params: { readonly model: string; readonly api_base: string };
  }[];
  readonly general_settings: { readonly master_key?: string; readonly dangerously_permit_weak_or_unset_master_key?: boolean };
}

function read(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8")) as unknown;
}

function argument(name: string): string {
  return args[args.indexOf(name) + 1] ?? "";
}

function portIn(address: string): number {
  return Number(address.split(":").at(-1));
}
