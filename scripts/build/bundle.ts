import { readFileSync, realpathSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

export const root: string = resolve(import.meta.dir, "../..");

const main = join(root, "src/main.ts");
/** Threads have an entry point of their own, and find it by its name alone: in a bundle, all of them are in one folder. */
const threads = ["src/store/sqlite/database-thread.ts", "src/store/drain/drain-thread.ts"].map((file) => join(root, file));

/** What all bundles of the gateway have in common: the executable, that of the package and the image, and that of the tests. */
export const bundled = {
  entrypoints: [main, ...threads],
  root: join(root, "src"),
  naming: { entry: "[name].[ext]" },
  target: "bun",
  bytecode: true,
} satisfies Partial<Bun.BuildConfig>;

/** Where the bundle is in the package and in the image. A checkout has none, so that it cannot start one that is older than its source. */
export const bundleFolder = "compiled";

/**
 * Bundles the gateway into a folder, compiled: Bun starts `main.js` there with half of the processor time that it needs for the source.
 * A module that finds something by its own place, such as the models, finds it as the source does: by the way from the bundle to the source.
 */
export async function bundleInto(folder: string, { place = realpathSync(folder), isWhole = false }: BundleOptions = {}): Promise<void> {
  const result = await Bun.build({
    ...bundled,
    outdir: folder,
    // Bun keeps the compiled form of no other format in a file (https://bun.com/docs/bundler/bytecode).
    format: "cjs",
    // Names and lines stay as they are, for the traces of errors.
    minify: { syntax: true },
    ...(isWhole ? {} : { bytecodeDepth: 0 }),
    banner: "var ownFolder=__dirname;",
    plugins: [
      {
        name: "places",
        setup: (build) => void build.onLoad({ filter: /\.ts$/ }, ({ path }) => ({ contents: textOf(path, place), loader: "ts" })),
      },
    ],
  });
  if (!result.success) throw new AggregateError(result.logs, "The gateway could not be bundled.");
}

export interface BundleOptions {
  /** Where the bundle is going to be, if it does not stay where it is made. */
  readonly place?: string;
  /** Functions are compiled ahead too, and not when they are called: it starts a fifth faster, and has 6 MB more in memory and on disk. */
  readonly isWhole?: boolean;
}

/** The text of a module. Bun itself would write the paths of this machine where a module asks for its own. */
function textOf(path: string, place: string): string {
  const text = readFileSync(path, "utf8");
  if (path === main) return withoutTopLevelAwait(text);
  if (!text.includes("import.meta")) return text;
  const found = (file: string): string => `ownFolder+${JSON.stringify(`/${relative(place, file)}`)}`;
  const placed = text
    .replaceAll(/new URL\("\.\/([\w-]+)\.ts", import\.meta\.url\)/g, (whole, name: string) =>
      threads.includes(join(dirname(path), `${name}.ts`)) ? `Bun.pathToFileURL(ownFolder+"/${name}.js")` : whole,
    )
    .replaceAll("import.meta.url", `Bun.pathToFileURL(${found(path)}).href`)
    .replaceAll("import.meta.dir", `(${found(dirname(path))})`);
  if (placed.includes("import.meta"))
    throw new Error(`${relative(root, path)} uses import.meta in a way that scripts/build/bundle.ts does not know.`);
  return placed;
}

/** The format has no top-level await: what stands behind the imports becomes a function. */
function withoutTopLevelAwait(text: string): string {
  const lastImport = text.lastIndexOf("\nimport ");
  const end = text.indexOf(";\n", lastImport) + 1;
  return `${text.slice(0, end)}\nvoid (async () => {\n${text.slice(end)}\n})();\n`;
}

/** Runs a command of the build, and returns what it wrote. */
export function run(command: readonly string[], cwd: string): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync([...command], { cwd, stdin: "ignore" });
  if (exitCode !== 0) throw new Error(`${command.slice(0, 2).join(" ")} ended with ${exitCode}: ${stderr.toString().slice(-500)}`);
  return stdout.toString();
}

// For deploy/Dockerfile.
if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined || !relative(root, resolve(folder)).startsWith("..")) {
    console.error("Name a folder outside of the checkout, which starts from its source.");
    process.exit(64);
  }
  await bundleInto(folder, { place: join(root, bundleFolder) });
}
