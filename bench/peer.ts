import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { answers, freePort, start } from "./processes.ts";
import { clientHeaders, started, startsWithinMs, type Target, type Upstream } from "./target.ts";

/** The peer: the best-known TypeScript gateway that installs from the npm registry, run as its own documentation says. */
export const peerPackage = { name: "@portkey-ai/gateway", version: "1.15.2" } as const;

const directory = join(import.meta.dir, "peer");
const entry = join(directory, "node_modules", peerPackage.name, "build", "start-server.js");

/** With newer versions of these two its streams answer 500. */
const overrides = { hono: "4.9.7", "@hono/node-server": "1.13.5" } as const;

export async function startPeer(upstream: Upstream): Promise<Target> {
  await install();
  const port = freePort();
  const running = start({
    name: "peer",
    command: ["node", "--import", loopbackOnly, entry, `--port=${port}`, "--headless"],
    environment: { NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "127.0.0.1" },
  });
  const origin = `http://127.0.0.1:${port}`;
  await answers(running, origin, startsWithinMs);
  return started("peer", running, {
    origin,
    headers: { ...clientHeaders, "x-portkey-provider": "openai", "x-portkey-custom-host": `${upstream.origin}/v1` },
  });
}

/** The peer has no setting for its address and would listen on every interface. */
const loopbackOnly = `data:text/javascript,${encodeURIComponent(`
  import { Server } from "node:net";
  const { listen } = Server.prototype;
  Server.prototype.listen = function (port, host, ...rest) { return listen.call(this, port, "127.0.0.1", ...rest); };
`)}`;

async function install(): Promise<void> {
  const wanted = JSON.stringify(
    { name: "sluice-bench-peer", private: true, dependencies: { [peerPackage.name]: peerPackage.version }, overrides },
    null,
    2,
  );
  const manifest = join(directory, "package.json");
  if (existsSync(entry) && existsSync(manifest) && readFileSync(manifest, "utf8") === wanted) return;
  mkdirSync(directory, { recursive: true });
  writeFileSync(manifest, wanted);
  console.error(`installing ${peerPackage.name} ${peerPackage.version} into bench/peer`);
  const npm = Bun.spawn(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"], {
    cwd: directory,
    stdout: "ignore",
    stderr: "pipe",
  });
  const complaint = await new Response(npm.stderr).text();
  if ((await npm.exited) !== 0) throw new Error(`npm could not install the peer: ${complaint.trim()}`);
}
