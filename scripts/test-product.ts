import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const root = resolve(import.meta.dir, "..");
const main = join(root, "src/main.ts");
/** Threads have an entry point of their own. */
const threads = ["src/store/sqlite/database-thread.ts", "src/store/drain/drain-thread.ts"].map((file) => join(root, file));

/**
 * Bundles the gateway into a folder, compiled, and returns a program that starts it as `bin/sluice` starts the source. The suite starts
 * hundreds of gateways, and to compile seven hundred files takes half of the processor time of a start.
 */
export async function buildProduct(folder: string): Promise<string> {
  const result = await Bun.build({
    entrypoints: [main, ...threads],
    root: join(root, "src"),
    naming: { entry: "[name].[ext]" },
    outdir: folder,
    target: "bun",
    // Bun keeps the compiled form of no other format (https://bun.com/docs/bundler/bytecode).
    format: "cjs",
    bytecode: true,
    plugins: [
      {
        name: "as in the source",
        setup: (build) => void build.onLoad({ filter: /\.ts$/ }, ({ path }) => ({ contents: textOf(path, folder), loader: "ts" })),
      },
    ],
  });
  if (!result.success) throw new AggregateError(result.logs, "The gateway could not be bundled.");
  const program = join(folder, "sluice");
  const start = `[ "$1" != start ] || trap '' HUP\n${runtime()} --no-install "${folder}/main.js" "$@"`;
  writeFileSync(program, `#!/bin/sh\n${start}\n`);
  return program;
}

/** What bin/bun does, without looking for the runtime at each start: it is asked once what it runs, and which variables it sets. */
function runtime(): string {
  const show = "process.stdout.write(JSON.stringify([process.execPath, process.env]))";
  const { stdout } = Bun.spawnSync(["sh", join(root, "bin/bun"), "-e", show], { env: { PATH: process.env["PATH"] ?? "" } });
  const [bun, variables] = JSON.parse(stdout.toString()) as [string, Readonly<Record<string, string>>];
  const set = Object.entries(variables).filter(([name]) => !["PATH", "PWD", "OLDPWD", "SHLVL", "_"].includes(name));
  return [...set.map(([name, value]) => `: "\${${name}:=${value}}"\nexport ${name}`), `exec "${bun}"`].join("\n");
}

function textOf(path: string, folder: string): string {
  const text = readFileSync(path, "utf8");
  if (path === main) return withoutTopLevelAwait(text);
  if (!text.includes("import.meta")) return text;
  // What a file finds by its own place is where the source is, but for threads.
  const placed = text
    .replaceAll(/new URL\("\.\/([\w-]+)\.ts", import\.meta\.url\)/g, (whole, name: string) =>
      threads.includes(join(dirname(path), `${name}.ts`)) ? `new URL("${pathToFileURL(join(folder, `${name}.js`)).href}")` : whole,
    )
    .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href))
    .replaceAll("import.meta.dir", JSON.stringify(dirname(path)));
  if (placed.includes("import.meta"))
    throw new Error(`${relative(root, path)} uses import.meta in a way that scripts/test-product.ts lacks.`);
  return placed;
}

/** The format has no top-level await: what stands behind the imports becomes a function. */
function withoutTopLevelAwait(text: string): string {
  const lastImport = text.lastIndexOf("\nimport ");
  const end = text.indexOf(";\n", lastImport) + 1;
  return `${text.slice(0, end)}\nvoid (async () => {\n${text.slice(end)}\n})();\n`;
}
