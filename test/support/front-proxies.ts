import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join, resolve } from "node:path";
import { freePort, GuardedServer, startOnFreePort } from "./servers/guarded.ts";
import { foundOrSkipped } from "./test-tools.ts";
import type { KeyPair } from "./tls.ts";

/** The proxies that deploy/ has configurations for. */
export type FrontProxyName = keyof typeof recipes;

interface FrontProxyFacts {
  readonly folder: string;
  readonly port: number;
  /** Such as `127.0.0.1:4400`. */
  readonly gateway: string;
}

interface Recipe {
  readonly configuration: string;
  /** Where the program is, if scripts/test-proxies.ts has fetched it. */
  readonly fetched: string;
  /** Puts the names of this test in the places of those that an operator would change. */
  readonly adapt: (text: string, facts: FrontProxyFacts) => string;
  /** Further files, by their names in the folder. */
  readonly files: (facts: FrontProxyFacts) => Readonly<Record<string, string>>;
  readonly command: (program: string, facts: FrontProxyFacts) => readonly string[];
}

const root = resolve(import.meta.dir, "../..");
/** What scripts/test-proxies.ts fetches. */
export const frontProxiesFolder = join(root, "test/servers/proxies");

const recipes = {
  nginx: {
    configuration: "deploy/nginx/sluice.conf",
    fetched: "usr/sbin/nginx",
    adapt: (text, { folder, port, gateway }) =>
      replaced(replaced(replaced(text, "127.0.0.1:4400", gateway), "listen 443 ", `listen 127.0.0.1:${port} `), "/etc/ssl/", `${folder}/`),
    files: ({ folder }) => ({
      "main.conf": [
        `pid ${folder}/nginx.pid;`,
        "error_log stderr;",
        "events {}",
        "http {",
        "  access_log off;",
        ...["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `  ${name}_temp_path ${folder}/temporary;`),
        `  include ${folder}/proxy.conf;`,
        "}",
      ].join("\n"),
    }),
    command: (program, { folder }) => [program, "-p", folder, "-c", `${folder}/main.conf`, "-g", "daemon off; master_process off;"],
  },
  caddy: {
    configuration: "deploy/caddy/Caddyfile",
    fetched: "usr/bin/caddy",
    adapt: (text, { folder, port, gateway }) => {
      const site = `https://127.0.0.1:${port} {\n\ttls ${folder}/ai.example.com.pem ${folder}/ai.example.com.key`;
      const own = replaced(replaced(text, "reverse_proxy 127.0.0.1:4400", `reverse_proxy ${gateway}`), "\nai.example.com {", `\n${site}`);
      return `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${own}`;
    },
    files: () => ({}),
    command: (program, { folder }) => [
      "env",
      `HOME=${folder}`,
      program,
      "run",
      "--config",
      `${folder}/proxy.conf`,
      "--adapter",
      "caddyfile",
    ],
  },
  envoy: {
    configuration: "deploy/envoy/envoy.yaml",
    fetched: "envoy/_bin/envoy",
    adapt: (text, { folder, port, gateway }) => {
      const [, gatewayPort = ""] = gateway.split(":");
      const listening = replaced(text, "address: 0.0.0.0, port_value: 443 ", `address: 127.0.0.1, port_value: ${port} `);
      return replaced(replaced(listening, "port_value: 4400 ", `port_value: ${gatewayPort} `), "/etc/ssl/", `${folder}/`);
    },
    files: () => ({}),
    command: (program, { folder }) => [
      program,
      "-c",
      `${folder}/envoy.yaml`,
      "--concurrency",
      "1",
      "--disable-hot-restart",
      "--log-level",
      "error",
    ],
  },
} as const satisfies Readonly<Record<string, Recipe>>;

export const frontProxies = Object.keys(recipes) as readonly FrontProxyName[];

export function configurationOf(name: FrontProxyName): string {
  return readFileSync(join(root, recipes[name].configuration), "utf8");
}

/** Why a proxy cannot be tried here, as a remark behind the name of what is skipped; empty where it can. */
export function lacking(name: FrontProxyName): string {
  return foundOrSkipped("proxies", name, programOf(name)) === null
    ? ` (skipped: no ${name} is here; \`sh bin/bun scripts/test-proxies.ts\` fetches it)`
    : "";
}

/** Where a proxy is; null if there is none. */
export function programOf(name: FrontProxyName): string | null {
  const fetched = join(frontProxiesFolder, recipes[name].fetched);
  return Bun.which(name) ?? (existsSync(fetched) ? fetched : null);
}

export interface FrontProxy {
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts a proxy with its configuration of deploy/, and waits until it takes connections. */
export async function startFrontProxy(name: FrontProxyName, gateway: string, { cert, key }: KeyPair): Promise<FrontProxy> {
  const recipe: Recipe = recipes[name];
  return startOnFreePort(() => {
    const server = new GuardedServer(name);
    const facts = { folder: server.folder, port: freePort(), gateway };
    const put = (file: string, text: string): void => writeFileSync(join(server.folder, file), text, { mode: 0o600 });
    mkdirSync(join(server.folder, "temporary"));
    put("ai.example.com.pem", cert);
    put("ai.example.com.key", key);
    put(name === "envoy" ? "envoy.yaml" : "proxy.conf", recipe.adapt(configurationOf(name), facts));
    for (const [file, text] of Object.entries(recipe.files(facts))) put(file, text);
    const command = recipe.command(programOf(name) ?? name, facts);
    return {
      port: facts.port,
      start: () => server.launch(command, { libraries: null, user: {} }, () => connects(facts.port)),
      stop: () => server.stop(),
    };
  });
}

function connects(port: number): Promise<boolean> {
  const socket = net.connect(port, "127.0.0.1");
  return new Promise((done) => {
    socket.once("connect", () => {
      socket.destroy();
      done(true);
    });
    socket.once("error", () => done(false));
  });
}

/** What an operator changes must be there to be changed. */
function replaced(text: string, place: string, by: string): string {
  if (!text.includes(place)) throw new Error(`the configuration was believed to contain ${place}`);
  return text.replaceAll(place, by);
}
