import { join } from "node:path";

/** A file of the console, before it is named and compressed. */
export interface BundledFile {
  readonly name: "app.js" | "app.css" | "icon.svg";
  readonly text: string;
}

/**
 * The files of the console, made of the sources in `src/console`. A clone and the package have those, and Bun bundles them in a fraction
 * of a second, in threads of its own, when the first page is opened. The executable has no sources: `scripts/build/executable.ts` replaces this
 * module by one that contains the files.
 */
export async function bundledFiles(): Promise<readonly BundledFile[]> {
  const folder = join(import.meta.dir, "../../console");
  const built = await Bun.build({
    entrypoints: [join(folder, "main.tsx"), join(folder, "styles/app.css")],
    target: "browser",
    minify: true,
    jsx: { runtime: "automatic", importSource: "preact", development: false },
    throw: true,
  });
  const [script, styles] = [".js", ".css"].map((extension) => built.outputs.find(({ path }) => path.endsWith(extension)));
  if (script === undefined || styles === undefined) throw new Error("the bundle of the console is incomplete");
  return [
    { name: "app.js", text: await script.text() },
    { name: "app.css", text: await styles.text() },
    { name: "icon.svg", text: await Bun.file(join(folder, "icon.svg")).text() },
  ];
}
