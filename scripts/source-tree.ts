import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/** What the project's own checks know of `src/`: its files, what they import, and the order of its folders. */
export const root: string = resolve(import.meta.dir, "..");

/** One row of the order. A folder may import those in the rows below its own, and its neighbours where `siblings` says so. */
export interface Layer {
  readonly title: string;
  readonly folders: readonly string[];
  readonly siblings: boolean;
}

export const layers: readonly Layer[] = [
  { title: "entry", folders: ["main.ts"], siblings: false },
  { title: "wiring", folders: ["app"], siblings: false },
  { title: "the fault lab", folders: ["lab"], siblings: false },
  { title: "the browser", folders: ["console"], siblings: false },
  { title: "edges", folders: ["http", "admin", "cli"], siblings: false },
  {
    title: "the outside world",
    folders: ["net", "store", "state", "engines", "config", "identity", "telemetry", "clock"],
    siblings: false,
  },
  { title: "temporary files", folders: ["files"], siblings: false },
  { title: "several servers", folders: ["servers"], siblings: false },
  { title: "management actions", folders: ["manage"], siblings: false },
  { title: "one call", folders: ["gateway"], siblings: false },
  { title: "upstream APIs", folders: ["dialects"], siblings: false },
  { title: "accounting", folders: ["usage"], siblings: false },
  { title: "rules", folders: ["routing", "keys"], siblings: true },
  { title: "facts and limits", folders: ["channels", "limits"], siblings: true },
  { title: "client APIs", folders: ["surfaces"], siblings: false },
  { title: "the model", folders: ["operations"], siblings: false },
  { title: "audio formats", folders: ["media"], siblings: false },
];

export interface Source {
  /** Such as `src/http/server.ts`. */
  readonly path: string;
  /** Its folder under `src/`, or its name where it lies in `src/` itself. */
  readonly folder: string;
  readonly text: string;
  /** Without comments. */
  readonly code: string;
  readonly imports: readonly string[];
}

export const sources: readonly Source[] = [...filesIn("src", ".ts"), ...filesIn("src", ".tsx")].map((path) => {
  const text = readFileSync(join(root, path), "utf8");
  const code = withoutComments(text);
  const [, folder = ""] = path.split("/");
  return { path, folder, text, code, imports: importsOf(code) };
});

const sourceAt = new Map(sources.map((source) => [source.path, source]));

/** The files of `src/` that a file imports. */
export function importedSources(source: Source): readonly Source[] {
  return source.imports.flatMap((name) => sourceAt.get(relative(root, resolve(root, dirname(source.path), name))) ?? []);
}

export function filesIn(folder: string, extension: string): readonly string[] {
  if (!existsSync(join(root, folder))) return [];
  const entries = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return entries
    .filter((name) => name.endsWith(extension))
    .map((name) => `${folder}/${name}`)
    .toSorted();
}

/** Strings stay, and with them a `//` inside of one. */
function withoutComments(text: string): string {
  return text.replace(
    /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_, string: string | undefined) => string ?? " ",
  );
}

/** What a file imports or re-exports, types too. */
function importsOf(code: string): readonly string[] {
  // Statements begin a line and end before a semicolon; the words alone also stand in texts.
  const statements = /^(?:import|export)\s[^;"]*?\bfrom\s*"([^"]+)"|^import\s*"([^"]+)"|\bimport\(\s*"([^"]+)"/gm;
  return [...code.matchAll(statements)].map(([, named, bare, called]) => named ?? bare ?? called ?? "");
}
