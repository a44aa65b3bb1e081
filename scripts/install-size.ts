import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unavailableCode } from "./prove/commands.ts";
import { root } from "./source-tree.ts";

/**
 * Installs the last commit into a folder of its own, as a newcomer does, and tells how much is on the disk afterwards. It ends with 1 if
 * that is more than we allow or if npm warned of anything, and with 69 if there is no registry to be reached.
 */
const megabytesMax = 350;
const minutesMax = 10;
const folder = mkdtempSync(join(tmpdir(), "sluice-install-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

const copied = await run(["sh", "-c", 'git -C "$0" archive HEAD | tar -x -C "$1"', root, folder], root);
if (copied.code !== 0) leave(unavailableCode, "this is not a clone with git, so that nothing can be installed from its last commit");
const { code, text } = await run(["npm", "install", "--no-audit", "--no-fund"], folder);
if (code !== 0) {
  const isCutOff = /\b(ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT)\b/.test(text);
  leave(
    isCutOff ? unavailableCode : 1,
    isCutOff ? "the npm registry cannot be reached" : `npm install ended with ${code}: ${lastLine(text)}`,
  );
}
// What somebody has set for all projects on this machine is not ours.
const warnings = text.split("\n").filter((line) => /^npm warn (?!Unknown (user|global|env|builtin) config)/i.test(line));
const kibibytes = Number(/^\d+/.exec((await run(["du", "-sk", folder], root)).text)?.[0]);
const megabytes = Math.round((kibibytes * 1024) / 1e6);
const figure = `${megabytes} MB on disk, at most ${megabytesMax}; ${warnings.length} warnings, at most 0`;
leave(megabytes <= megabytesMax && warnings.length === 0 ? 0 : 1, [...warnings, figure].join("\n"));

async function run(command: readonly string[], cwd: string): Promise<{ readonly code: number; readonly text: string }> {
  const child = Bun.spawn([...command], { cwd, stdin: "ignore", stdout: "pipe", stderr: "pipe", timeout: minutesMax * 60_000 });
  const texts = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, text: texts.join("\n") };
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

function leave(exitCode: number, message: string): never {
  console.log(message);
  process.exit(exitCode);
}
