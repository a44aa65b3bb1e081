import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { bundledFiles } from "../../src/admin/console/bundle.ts";
import { lockOf } from "../lockfile.ts";
import { bundled, root, run } from "./bundle.ts";

/**
 * Builds the gateway as one executable file for each platform, without the models of packages/embedded: `npm run build` makes all of
 * them, `npm run build -- linux-arm64` one, `npm run build -- here` that of this machine. The runtimes of the other platforms are
 * downloaded with npm and checked against our lock.
 */
const folder = join(root, "dist");

/** By the names of Node's platforms and architectures, with the package of the runtime. */
const platforms: ReadonlyMap<string, string> = new Map([
  ["linux-x64", "@oven/bun-linux-x64"],
  ["linux-arm64", "@oven/bun-linux-aarch64"],
  ["darwin-arm64", "@oven/bun-darwin-aarch64"],
]);
const here = `${process.platform}-${process.arch}`;

const asked = process.argv.slice(2).map((name) => (name === "here" ? here : name));
const unknown = asked.filter((name) => !platforms.has(name));
if (unknown.length > 0) {
  console.error(`There is no build for ${unknown.join(", ")}: choose from ${[...platforms.keys()].join(", ")}, here.`);
  process.exit(64);
}
mkdirSync(folder, { recursive: true });
for (const platform of asked.length > 0 ? asked : platforms.keys()) {
  const file = await build(platform);
  console.log(`${file}  ${(statSync(file).size / 1e6).toFixed(0)} MB`);
}

async function build(platform: string): Promise<string> {
  const outfile = join(folder, `sluice-${platform}`);
  const result = await Bun.build({
    ...bundled,
    minify: { syntax: true, whitespace: true },
    // Compiled ahead and loaded in parts, the gateway starts with half of the processor time. Inner functions are compiled when they are
    // called: all of them are 3 MB more, and save a tenth.
    format: "esm",
    bytecodeDepth: 1,
    splitting: true,
    plugins: [await consoleInside()],
    compile: {
      outfile,
      target: `bun-${platform}` as Bun.Build.CompileTarget,
      executablePath: await runtimeFor(platform),
      // A gateway must not read settings of whichever folder it is started in.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  });
  if (!result.success) throw new AggregateError(result.logs, `The executable for ${platform} could not be built.`);
  return outfile;
}

/** The executable has no sources to bundle the console of, so that it gets the bundled files. */
async function consoleInside(): Promise<Bun.BunPlugin> {
  const files = JSON.stringify(await bundledFiles());
  return {
    name: "console",
    setup: (build) => {
      build.onLoad({ filter: /src\/admin\/console\/bundle\.ts$/ }, () => ({
        loader: "js",
        contents: `const files = ${files};\nexport function bundledFiles() { return Promise.resolve(files); }\n`,
      }));
    },
  };
}

/** The runtime's executable: of this installation, or downloaded once. */
async function runtimeFor(platform: string): Promise<string> {
  const name = platforms.get(platform) ?? "";
  const installed = join(root, "node_modules", name, "bin/bun");
  if (existsSync(installed)) return installed;
  const { version, integrity } = lockOf(".").packages[`node_modules/${name}`] ?? {};
  if (version === undefined || integrity === undefined) throw new Error(`The lock says too little of ${name}.`);
  const kept = join(folder, ".runtimes", `${platform}-${version}`);
  if (existsSync(kept)) return kept;
  mkdirSync(join(folder, ".runtimes"), { recursive: true });
  const scratch = mkdtempSync(join(folder, ".runtimes", "download-"));
  try {
    const archive = join(
      scratch,
      run(["npm", "pack", "--silent", `${name}@${version}`], scratch)
        .trim()
        .split("\n")
        .at(-1) ?? "",
    );
    const found = `sha512-${createHash("sha512").update(readFileSync(archive)).digest("base64")}`;
    if (found !== integrity) throw new Error(`${name}@${version} is not what our lock says: its hash is ${found}.`);
    run(["tar", "-xzf", archive, "package/bin/bun"], scratch);
    renameSync(join(scratch, "package/bin/bun"), kept);
    return kept;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
