import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, normalize, resolve } from "node:path";
import { filesIn, importedSources, layers, root, sources } from "../../scripts/source-tree.ts";
import { presets } from "../../src/dialects/presets.ts";

/** The folders that only decide: whatever they need of the world comes in as an argument or through a port. */
const core = ["manage", "gateway", "dialects", "usage", "routing", "keys", "channels", "limits", "surfaces", "operations", "media"];
/** What the edges may use of the folders that implement the gateway's ports; everything else is handed to them by `app`. */
const usedByEdges = ["net"];
/** Who carries out management actions: what implements the gateway's ports stands above them, and is handed in all the same. */
const managing = ["app", "http", "admin", "cli", "manage"];
/** Where the runtime's own interface may be used. */
const onBun = ["http", "admin", "net", "store", "state", "engines", "cli"];

const folderFilesMax = 22;

test("there is something to check", () => {
  expect(sources.length).toBeGreaterThan(50);
  expect(sources.flatMap(({ imports }) => imports).length).toBeGreaterThan(200);
});

describe("imports", () => {
  test("every folder of src has a place in the order", () => {
    const known = layers.flatMap(({ folders }) => folders);
    expect(sources.filter(({ folder }) => !known.includes(folder)).map(({ path }) => path)).toEqual([]);
  });

  test("go downwards only, and not from one part of the outer ring to another", () => {
    const wrong = sources.flatMap((source) =>
      importedSources(source)
        .map(({ folder }) => folder)
        .filter((folder) => !mayImport(source.folder, folder))
        .map((folder) => `${source.path} imports ${folder}`),
    );
    expect(wrong).toEqual([]);
  });

  test("no folder holds more files than can be taken in at a glance", () => {
    const counts = new Map<string, number>();
    for (const { path } of sources) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
    expect([...counts].filter(([, count]) => count > folderFilesMax)).toEqual([]);
  });

  test("of the console are types, the list of pages, the rule for paths, sentences about calls and a guide: it stands on the admin API alone", () => {
    const shared = ["src/admin/console/pages.ts", "src/admin/router.ts", "src/usage/call-story.ts", "docs/guides/clients.md"];
    const wrong = sources
      .filter(({ folder }) => folder === "console")
      .flatMap(({ path, code }) =>
        [...code.matchAll(/^import\s+(?!type\b)[^;"]*?\bfrom\s*"(\.[^"]+)"/gm)]
          .map(([, name = ""]) => normalize(join(dirname(path), name)))
          .filter((name) => !name.startsWith("src/console/") && !shared.includes(name))
          .map((name) => `${path} imports ${name}`),
      );
    expect(wrong).toEqual([]);
  });

  test("of folders make no circle", () => {
    const edges = new Map<string, Set<string>>();
    for (const source of sources) {
      for (const { folder } of importedSources(source)) {
        if (folder !== source.folder) edges.set(source.folder, (edges.get(source.folder) ?? new Set()).add(folder));
      }
    }
    expect(circleIn(edges)).toBeNull();
  });

  test("of the optional package reach into src for its readers of containers only", () => {
    const imported = filesIn("packages/embedded/src", ".ts").flatMap((path) =>
      [...readFileSync(join(root, path), "utf8").matchAll(/"((?:\.\.\/)+src\/[^"]+)"/g)].map(([, name = ""]) =>
        normalize(join(dirname(path), name)),
      ),
    );
    expect(imported).toContain("src/media/containers/mp4-boxes.ts");
    expect(imported.filter((path) => !path.startsWith("src/media/"))).toEqual([]);
  });

  test("name files, with their extension, that exist", () => {
    const missing = sources.flatMap((source) =>
      source.imports
        .filter((name) => name.startsWith(".") && !existsSync(resolve(root, dirname(source.path), name)))
        .map((name) => `${source.path}: ${name}`),
    );
    expect(missing).toEqual([]);
  });

  test("of packages that only some gateways need are made when they are needed first", () => {
    const loading = (source: (typeof sources)[number], name: string): boolean =>
      [...source.code.matchAll(/^(?:import|export)\s(?!type\b)[^;"]*?\bfrom\s*"([^"]+)"/gm)].some(([, imported]) => imported === name);
    const loaders = sources.filter((source) => ["jose", "openid-client"].some((name) => loading(source, name)));
    expect(loaders.map(({ path }) => path)).toEqual(["src/identity/oidc-provider.ts", "src/identity/verify-jwt.ts"]);
    const importers = sources.filter((source) =>
      source.imports.some((name) => loading(source, name) && loaders.some(({ path }) => name.endsWith(`/${basename(path)}`))),
    );
    expect(importers.map(({ path }) => path)).toEqual(["src/identity/oidc-provider.ts"]);
  });

  test("of packages stand in the outer ring, and every one is a dependency", () => {
    const { dependencies } = manifest();
    const wrong = sources.flatMap((source) =>
      source.imports
        .filter((name) => isPackage(name) && (core.includes(source.folder) || !(packageName(name) in dependencies)))
        .map((name) => `${source.path} imports ${name}`),
    );
    expect(wrong).toEqual([]);
  });
});

test("the console makes no markup of strings", () => {
  const markup = /dangerouslySetInnerHTML|\.(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|createContextualFragment|\beval\(/;
  expect(sources.filter(({ folder, code }) => folder === "console" && markup.test(code)).map(({ path }) => path)).toEqual([]);
});

describe("the core", () => {
  const forbidden: readonly (readonly [what: string, pattern: RegExp])[] = [
    ["the runtime", /\bBun\b|\bprocess\b|\bBuffer\b|\brequire\(|\bimport\.meta\b/],
    ["a clock", /\bDate\.now\b|\bnew Date\(\)|\bperformance\b/],
    ["a timer", /\bset(Timeout|Interval|Immediate)\b|\bAbortSignal\.timeout\b/],
    ["dice", /\bMath\.random\b|\bcrypto\b/],
    ["the network", /\bfetch\(|\bWebSocket\b|\bEventSource\b/],
    ["the console", /\bconsole\b/],
  ];

  test.each(forbidden)("does not use %s", (_, pattern) => {
    const users = sources.filter(({ folder, code }) => core.includes(folder) && pattern.test(code)).map(({ path }) => path);
    expect(users).toEqual([]);
  });

  test("imports neither packages nor modules of the runtime", () => {
    const users = sources.filter(({ folder, imports }) => core.includes(folder) && imports.some((name) => !name.startsWith(".")));
    expect(users.map(({ path }) => path)).toEqual([]);
  });
});

describe("the edge", () => {
  test("uses the runtime's own interface in the outer ring only", () => {
    const users = sources.filter(
      ({ code, imports }) => /\bBun\./.test(code) || imports.some((name) => name === "bun" || name.startsWith("bun:")),
    );
    expect(users.filter(({ folder }) => !onBun.includes(folder)).map(({ path }) => path)).toEqual([]);
  });

  test("reads the environment in config and main only", () => {
    const readers = sources.filter(({ code }) => /\bprocess\.env\b|\bBun\.env\b|\bimport\.meta\.env\b/.test(code));
    // The console has none: it shows programs that read theirs.
    expect(readers.filter(({ folder }) => !["config", "main.ts", "console"].includes(folder)).map(({ path }) => path)).toEqual([]);
  });
});

describe("classes", () => {
  test("implement one interface of ours at most: what needs another is a function or an object of its own", () => {
    const ours = new Set(
      sources.flatMap(({ code }) => [...code.matchAll(/\b(?:interface|type) ([A-Z]\w*)/g)].map(([, name = ""]) => name)),
    );
    const found = sources.flatMap(({ path, code }) =>
      [...code.matchAll(/\bclass (\w+)[^{;]*?\bimplements ([^{]+)\{/g)]
        .map(([, name = "", list = ""]) => ({ name, list: list.replaceAll(/<[^<>]*>/g, "").split(",") }))
        .map(({ name, list }) => ({ name, implemented: list.map((each) => each.trim()).filter((each) => ours.has(each)) }))
        .filter(({ implemented }) => implemented.length > 1)
        .map(({ name, implemented }) => `${path}: ${name} implements ${implemented.join(", ")}`),
    );
    expect(found).toEqual([]);
  });

  test("and functions take no readonly away: a field that changes is declared as one", () => {
    expect(sources.filter(({ code }) => /-readonly\b/.test(code)).map(({ path }) => path)).toEqual([]);
  });
});

describe("names", () => {
  test("no file is called after what it has no idea of", () => {
    const vague = /^(utils?|helpers?|common|misc|shared|lib|stuff|tools)$/;
    const parts = sources.flatMap(({ path }) =>
      path
        .replace(/\.tsx?$/, "")
        .split(/[/-]/)
        .map((part) => ({ path, part })),
    );
    expect(parts.filter(({ part }) => vague.test(part)).map(({ path }) => path)).toEqual([]);
  });

  test("files are called in lower case, their words joined by hyphens", () => {
    expect(sources.map(({ path }) => basename(path)).filter((name) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.d)?\.tsx?$/.test(name))).toEqual([]);
  });

  test("a provider is named in the index of providers and in its own dialect, and nowhere else", () => {
    const found = sources
      .filter(({ path }) => !providerIndexes.some((index) => path.startsWith(index)))
      .flatMap(({ path, text }) =>
        providerNames
          .filter((name) => names(text, name) && !isOwnFile(path, name) && !granted.has(`${path}: ${name}`))
          .map((name) => `${path}: ${name}`),
      );
    expect(found).toEqual([]);
  });

  test("and each exception to that is still needed", () => {
    const idle = [...granted].filter((grant) => {
      const [path = "", name = ""] = grant.split(": ");
      return !names(sources.find((source) => source.path === path)?.text ?? "", name);
    });
    expect(idle).toEqual([]);
  });
});

/** The presets, and what other gateways call them. */
const providerIndexes = ["src/dialects/presets.ts", "src/dialects/foreign-names.ts", "src/cli/import/"];

/** Too common a word to be looked for, or a way to authenticate as well. */
const mistakable = ["together", "converse", "tts", "stt", "google", "speech"];
const providerNames: readonly string[] = [
  ...new Set([
    ...presets.filter(({ local }) => !local).flatMap(({ name }) => [name, ...name.split("-")]),
    ...[
      "anthropic",
      "claude",
      "elevenlabs",
      "deepgram",
      "assemblyai",
      "cohere",
      "gpt",
      "sagemaker",
      "vertex",
      "huggingface",
      "litellm",
      "portkey",
    ],
  ]),
].filter((name) => !mistakable.includes(name));

/** The index of surfaces names their folders, as that of dialects does. */
const granted: ReadonlySet<string> = new Set([
  ...["src/surfaces/index.ts: openai", "src/surfaces/index.ts: anthropic", "src/surfaces/index.ts: gemini"],
  // A field of the chat API that clients know has the name in it.
  "src/surfaces/openai-chat/reasoning.ts: google",
  // The paths of an API with deployments begin with it.
  "src/http/routes.ts: openai",
  // The packages that clients import.
  "src/console/pages/playground/code.ts: openai",
  // The variables with which a cloud tells a machine who it is.
  ...["entra-identity", "machine-facts"].map((file) => `src/net/credentials/${file}.ts: azure`),
  // The names of the models of an API, and of the clouds that serve it, which differ in a few facts.
  "src/dialects/anthropic/model-facts.ts: claude",
  ...["vertex", "bedrock"].map((host) => `src/dialects/anthropic/hosts.ts: ${host}`),
  // The models of a maker take the fields of its own API through that of a cloud, too: the facts are in its folder.
  "src/dialects/bedrock/converse-settings.ts: anthropic",
]);

/** An API that many providers implement has the name of the one that defined it, and so has the surface that speaks it. */
const apiNames = /\bOpenAI(?: API\b| Responses\b|-compatible\b)|"(?:openai-chat|openai-responses|anthropic-messages|gemini)"/g;

/** In any spelling, at the beginning, the middle or the end of an identifier, but not inside of another word. */
function names(source: string, name: string): boolean {
  const text = source.replaceAll(apiNames, "");
  return [...text.matchAll(new RegExp(RegExp.escape(name), "gi"))].some(({ 0: found, index }) => {
    const before = text[index - 1] ?? "";
    const after = text[index + found.length] ?? "";
    const first = found[0] ?? "";
    return !isLower(after) && !(isLower(before) && isLower(first)) && !(isUpper(before) && isUpper(first));
  });
}

function isLower(character: string): boolean {
  return /[a-z]/.test(character);
}

function isUpper(character: string): boolean {
  return /[A-Z]/.test(character);
}

/** A dialect and a surface have a folder of their own; the index of dialects names them all, and so does the list of surfaces. */
function isOwnFile(path: string, name: string): boolean {
  if (path === "src/dialects/index.ts" || path === "src/operations/conversation/surface.ts") return true;
  // The APIs of one provider share a folder, and their presets have longer names.
  const [provider = name] = name.split("-");
  return [
    `src/dialects/${provider}/`,
    `src/dialects/${name}/`,
    `src/dialects/${name}-`,
    `src/surfaces/${name}/`,
    `src/surfaces/${name}-`,
  ].some((folder) => path.startsWith(folder));
}

describe("the documentation", () => {
  const pages = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...filesIn("docs", ".md")];

  test("has pages", () => {
    expect(pages).toContain("README.md");
    expect(pages.some((page) => page.startsWith("docs/"))).toBe(true);
  });

  test("mentions no path that does not exist", () => {
    const missing = pages.flatMap((page) =>
      pathsIn(readFileSync(join(root, page), "utf8"))
        .filter((path) => !exists(path))
        .map((path) => `${page}: ${path}`),
    );
    expect(missing).toEqual([]);
  });

  test("links to pages and headings that exist", () => {
    const broken = pages.flatMap((page) => {
      const links = [...readFileSync(join(root, page), "utf8").matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
      return links.filter((target) => !/^[a-z]+:/.test(target) && !leads(page, target)).map((target) => `${page}: ${target}`);
    });
    expect(broken).toEqual([]);
  });

  test("names only scripts that package.json has", () => {
    const { scripts } = manifest();
    const unknown = pages.flatMap((page) =>
      [...readFileSync(join(root, page), "utf8").matchAll(/npm run (?:--silent )?([\w:-]+)/g)]
        .map(([, script = ""]) => script)
        .filter((script) => !(script in scripts))
        .map((script) => `${page}: ${script}`),
    );
    expect(unknown).toEqual([]);
  });
});

describe("dependencies", () => {
  test("are few", () => {
    expect(Object.keys(manifest().dependencies).length).toBeLessThanOrEqual(12);
  });

  test("are pinned to one version each", () => {
    const { dependencies, devDependencies } = manifest();
    const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version));
    expect(loose).toEqual([]);
  });

  test("are all used", () => {
    const used = new Set(sources.flatMap(({ imports }) => imports.filter(isPackage).map(packageName)));
    expect(Object.keys(manifest().dependencies).filter((name) => !used.has(name))).toEqual([]);
  });

  test("run no install script: npm would warn of it, also whoever installs the package", () => {
    const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lockfile;
    const reached = reachable(lock);
    expect(reached.length).toBeGreaterThanOrEqual(Object.keys(manifest().dependencies).length);
    expect(reached.filter((path) => lock.packages[path]?.hasInstallScript === true)).toEqual([]);
  });

  test("are locked as package.json asks for them", () => {
    const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lockfile;
    const { dependencies, devDependencies } = manifest();
    expect(lock.packages[""]).toMatchObject({ dependencies, devDependencies });
  });
});

function mayImport(from: string, to: string): boolean {
  const above = layers.findIndex(({ folders }) => folders.includes(from));
  const below = layers.findIndex(({ folders }) => folders.includes(to));
  if (to === "manage") return managing.includes(from);
  // What a client speaks and what an upstream speaks meet in the model only.
  if (from === "dialects" && to === "surfaces") return false;
  if (layers[below]?.folders.includes("net") === true && layers[above]?.folders.includes("http") === true) return usedByEdges.includes(to);
  if (from === to || below > above) return true;
  return below === above && (layers[above]?.siblings ?? false);
}

/** One circle of the graph, or null. */
function circleIn(edges: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] | null {
  const clean = new Set<string>();
  const search = (path: readonly string[]): readonly string[] | null => {
    const last = path.at(-1) ?? "";
    if (path.indexOf(last) < path.length - 1) return path.slice(path.indexOf(last));
    if (clean.has(last)) return null;
    for (const next of edges.get(last) ?? []) {
      const circle = search([...path, next]);
      if (circle !== null) return circle;
    }
    clean.add(last);
    return null;
  };
  for (const start of edges.keys()) {
    const circle = search([start]);
    if (circle !== null) return circle;
  }
  return null;
}

function isPackage(name: string): boolean {
  return !name.startsWith(".") && !name.startsWith("node:") && !name.startsWith("bun:") && name !== "bun";
}

function packageName(name: string): string {
  return name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
}

/** What looks like a path of this repository, wherever it stands in the text. */
function pathsIn(markdown: string): readonly string[] {
  const places = "src|test|bench|docs|examples|scripts|bin|web|deploy|packages";
  const pattern = new RegExp(`(?<![\\w/.@:-])(?:\\./)?(?:${places})/[\\w./*<>{}-]*`, "g");
  return [...markdown.matchAll(pattern)].map(([path]) => path.replace(/[.]+$/, ""));
}

/** A placeholder stands for anything, so only what comes before it can be checked; a star must find something. */
function exists(path: string): boolean {
  const [known = ""] = path.split(/[<{]|[A-Z]{3,}/, 1);
  if (known.includes("*")) return !new Bun.Glob(normalize(known)).scanSync({ cwd: root, onlyFiles: false }).next().done;
  return existsSync(join(root, known === path ? known : dirname(`${known}x`)));
}

function leads(page: string, target: string): boolean {
  const [path = "", heading] = target.split("#");
  const file = path === "" ? join(root, page) : resolve(root, dirname(page), path);
  if (!existsSync(file)) return false;
  if (heading === undefined || statSync(file).isDirectory()) return heading === undefined;
  const headings = [...readFileSync(file, "utf8").matchAll(/^#+ +(.+)$/gm)].map(([, title = ""]) => anchorOf(title));
  return headings.includes(heading);
}

/** As the forges make it. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

interface Lockfile {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

interface LockedPackage {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly hasInstallScript?: boolean;
}

function manifest(): Manifest {
  return JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
}

/** Every package that whoever installs Sluice gets. */
function reachable(lock: Lockfile): readonly string[] {
  const reached = new Set<string>();
  const visit = (from: string): void => {
    const entry = lock.packages[from];
    const wanted = { ...entry?.dependencies, ...entry?.optionalDependencies, ...(from === "" ? {} : entry?.peerDependencies) };
    for (const name of Object.keys(wanted)) {
      const path = resolved(lock, from, name);
      if (path === null || reached.has(path)) continue;
      reached.add(path);
      visit(path);
    }
  };
  visit("");
  return [...reached].toSorted();
}

/** As Node looks for it: beside the importer, then in each folder above. */
function resolved(lock: Lockfile, from: string, name: string): string | null {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
    const path = `${at === "" ? "" : `${at}/`}node_modules/${name}`;
    if (path in lock.packages) return path;
    if (at === "") return null;
  }
}
