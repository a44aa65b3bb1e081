// Needs: models. It runs the models of this machine.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { addAddon, type AddOptions } from "../../packages/embedded/src/addons/add.ts";
import type { Addon, AddonFile, AddonPackage } from "../../packages/embedded/src/addons/addon.ts";
import { addedModels, addonState } from "../../packages/embedded/src/addons/installed.ts";
import { isProblem, type Progress } from "../../packages/embedded/src/addons/progress.ts";
import { removeAddon } from "../../packages/embedded/src/addons/remove.ts";
import { eventually } from "../support/eventually.ts";

// npm starts slowly on a busy machine.
setDefaultTimeout(60_000);

interface Published extends AddonPackage {
  readonly archive: Uint8Array;
}

/** A registry as npm expects one, over real HTTP, that can be made to misbehave. */
class Registry {
  readonly #server = createServer((request, response) => this.#answer(request, response));
  readonly #packages = new Map<string, Published>();
  /** Archives that were asked for, with the range. */
  readonly asked: string[] = [];
  /** The archive's connection goes silent after so many bytes. */
  silentAfter: number | null = null;
  /** The archive's connection breaks, once, after so many bytes. */
  breakAfter: number | null = null;
  knowsRanges = true;
  token: string | null = null;
  /** What is served in an archive's place. */
  forged: Uint8Array | null = null;
  claimedIntegrity: string | null = null;

  async open(): Promise<void> {
    await new Promise<void>((listening) => this.#server.listen(0, "127.0.0.1", listening));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  publish(published: Published): void {
    this.#packages.set(published.name, published);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(request.url ?? "");
    if (this.token !== null && request.headers.authorization !== `Bearer ${this.token}`) {
      response.writeHead(401).end("{}");
      return;
    }
    const [, name = "", file] = /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+))?$/.exec(path) ?? [];
    const published = this.#packages.get(name);
    if (published === undefined) response.writeHead(404, { "content-type": "application/json" }).end(`{"error":"not found"}`);
    else if (file === undefined) response.end(JSON.stringify(this.#described(published)));
    else this.#send(published, request, response);
  }

  #described({ name, version, integrity }: Published): object {
    const dist = { tarball: `${this.url}${name}/-/${version}.tgz`, integrity: this.claimedIntegrity ?? integrity };
    return { name, "dist-tags": { latest: version }, versions: { [version]: { name, version, dist } } };
  }

  #send({ name, archive }: Published, request: IncomingMessage, response: ServerResponse): void {
    const { range } = request.headers;
    this.asked.push(range === undefined ? name : `${name} ${range}`);
    const bytes = this.forged ?? archive;
    const from = this.knowsRanges ? Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0) : 0;
    response.setHeader("content-length", bytes.length - from);
    if (from > 0) response.writeHead(206, { "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` });
    if (this.silentAfter !== null) {
      response.write(bytes.subarray(from, from + this.silentAfter));
    } else if (this.breakAfter !== null) {
      const until = from + this.breakAfter;
      this.breakAfter = null;
      response.write(bytes.subarray(from, until));
      // What is not on the disk by then would be lost with the connection.
      void eventually("what was sent is on the disk", () => fetchedBytes() === until).finally(() => response.destroy());
    } else {
      response.end(bytes.subarray(from));
    }
  }
}

function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

function sha512(bytes: Uint8Array): string {
  return `sha512-${new Bun.CryptoHasher("sha512").update(bytes).digest("base64")}`;
}

/** What does not shrink, so that an archive has about the size of what is in it. */
function noise(bytes: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(bytes));
}

function tar(entries: Readonly<Record<string, Uint8Array>>): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (const [name, contents] of Object.entries(entries)) {
    const head = Buffer.alloc(512);
    head.write(name, 0);
    head.write("0000644\0", 100);
    head.write(`${contents.length.toString(8).padStart(11, "0")}\0`, 124);
    head.write("        0", 148);
    head.write("ustar\u000000", 257);
    head.write(
      `${head
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, "0")}\0 `,
      148,
    );
    blocks.push(head, contents, Buffer.alloc((512 - (contents.length % 512)) % 512));
  }
  return Bun.gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}

function published(name: string, entries: Readonly<Record<string, Uint8Array>>): Published {
  const manifest = new TextEncoder().encode(JSON.stringify({ name, version: "1.2.3" }));
  const archive = tar({ "package/package.json": manifest, ...entries });
  return { name, version: "1.2.3", integrity: sha512(archive), bytes: archive.length, archive };
}

function file(
  path: string,
  ...pieces: readonly { readonly from: Published; readonly entry: string; readonly contents: Uint8Array }[]
): AddonFile {
  const whole = Buffer.concat(pieces.map(({ contents }) => contents));
  return {
    path,
    bytes: whole.length,
    sha256: sha256(whole),
    pieces: pieces.map(({ from, entry, contents }) => ({ package: from.name, entry, bytes: contents.length, sha256: sha256(contents) })),
  };
}

const config = new TextEncoder().encode('{"layers":4}');
const [half, otherHalf, network] = [noise(60_000), noise(50_000), noise(80_000)];
const first = published("tiny-first", { "package/half.part": half, "package/unwanted.bin": noise(100), "package/in/config.json": config });
const second = published("@tiny/second", { "package/half.part": otherHalf, "package/onnx/network.onnx": network });
const addon: Addon = {
  name: "tiny",
  operation: "transcription",
  description: "A tiny one.",
  licence: "MIT",
  platforms: null,
  packages: [first, second].map(({ name, version, integrity, bytes }) => ({ name, version, integrity, bytes })),
  files: [
    file("config.json", { from: first, entry: "in/config.json", contents: config }),
    file("onnx/network.onnx", { from: second, entry: "onnx/network.onnx", contents: network }),
    file("model.bin", { from: first, entry: "half.part", contents: half }, { from: second, entry: "half.part", contents: otherHalf }),
  ],
};

/** Of one package: each takes npm its time. */
const small: Addon = {
  ...addon,
  packages: addon.packages.slice(0, 1),
  files: [
    file("config.json", { from: first, entry: "in/config.json", contents: config }),
    file("half.bin", { from: first, entry: "half.part", contents: half }),
  ],
};

function ofPackage(change: Partial<AddonPackage>): Addon {
  const files = small.files.map((kept) => ({
    ...kept,
    pieces: kept.pieces.map((piece) => ({ ...piece, package: change.name ?? piece.package })),
  }));
  return { ...small, packages: small.packages.map((pinned) => ({ ...pinned, ...change })), files };
}

let registry: Registry;
let dataDir: string;
let home: string;
const cleanups: (() => void | Promise<void>)[] = [];

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "sluice-npm-"));
});
afterAll(() => {
  rmSync(home, { recursive: true, force: true });
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function setStage(): Promise<void> {
  registry = new Registry();
  await registry.open();
  registry.publish(first);
  registry.publish(second);
  dataDir = mkdtempSync(join(tmpdir(), "sluice-models-"));
  cleanups.push(
    () => registry.close(),
    () => rmSync(dataDir, { recursive: true, force: true }),
  );
}

/** The user's own settings: none but the registry, and a cache that no other test has filled. */
function npmEnvironment(extra: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    npm_config_registry: registry.url,
    npm_config_cache: join(dataDir, "npm-cache"),
    npm_config_userconfig: join(home, "npmrc"),
    ...extra,
  };
}

/**
 * The same with a stand-in for npm that only asks the registry, because npm itself takes most of a second for each package. What
 * depends on npm is tested with npm.
 */
function quickEnvironment(): Readonly<Record<string, string>> {
  return npmEnvironment({ PATH: `${standIn()}:${process.env["PATH"]}` });
}

function standIn(): string {
  const folder = join(home, "stand-in");
  if (existsSync(folder)) return folder;
  mkdirSync(folder);
  const program = `
    const [command, spec = ""] = process.argv.slice(2);
    if (command !== "view") process.exit(0);
    const [, name, version] = /^(.+)@(.+)$/.exec(spec) ?? [];
    const found = await (await fetch(process.env.npm_config_registry + encodeURIComponent(name))).json();
    console.log(JSON.stringify(found.versions[version].dist));
  `;
  writeFileSync(join(folder, "npm.js"), program);
  writeFileSync(join(folder, "npm"), `#!/bin/sh\nexec ${process.execPath} ${join(folder, "npm.js")} "$@"\n`);
  chmodSync(join(folder, "npm"), 0o755);
  return folder;
}

function options(changes: Partial<AddOptions> = {}): AddOptions & { readonly steps: Progress[] } {
  const steps: Progress[] = [];
  return {
    dataDir,
    env: quickEnvironment(),
    signal: new AbortController().signal,
    onProgress: (step) => steps.push(step),
    steps,
    ...changes,
  };
}

function place(path = ""): string {
  return join(dataDir, "models", "tiny", path);
}

const stagingFolder = (): string => join(dataDir, "models", ".adding", "tiny");

/** What there is of a package that is not there as a whole. */
function fetchedBytes(): number {
  const part = inWorkshop().find((name) => name.endsWith(".part"));
  return part === undefined ? 0 : statSync(join(stagingFolder(), part)).size;
}

function inWorkshop(): readonly string[] {
  const folder = stagingFolder();
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => statSync(join(folder, name)).isFile());
}

async function problemOf(
  changes: Partial<AddOptions> = {},
  what: Addon = addon,
): Promise<{ readonly kind: string; readonly message: string }> {
  const result = await addAddon(what, options(changes));
  if (!isProblem(result)) throw new Error("it was added");
  return result;
}

describe("adding a model", () => {
  test("puts exactly the pinned files into its folder, and lists it from then on", async () => {
    await setStage();
    expect(addedModels(dataDir, [addon])).toEqual([]);
    const wishes = options({ env: npmEnvironment() });
    expect(await addAddon(addon, wishes)).toEqual({ directory: place(), wasThere: false });

    expect(readdirSync(place(), { recursive: true, encoding: "utf8" }).toSorted()).toEqual(
      ["config.json", "manifest.json", "model.bin", "onnx", "onnx/network.onnx"].toSorted(),
    );
    expect(readFileSync(place("model.bin")).equals(Buffer.concat([half, otherHalf]))).toBe(true);
    expect(readFileSync(place("onnx/network.onnx")).equals(Buffer.from(network))).toBe(true);
    expect(readdirSync(join(dataDir, "models", ".adding"))).toEqual([]);
    expect(addedModels(dataDir, [addon])).toEqual([
      {
        id: "embedded/tiny",
        upstream: "tiny",
        operation: "transcription",
        description: "A tiny one.",
        licence: "MIT",
        package: "tiny-first",
        files: addon.files.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })),
        directory: resolve(place()),
      },
    ]);
    const fetched = wishes.steps.filter((step) => step.step === "fetching").at(-1);
    expect(fetched).toMatchObject({ bytes: first.bytes + second.bytes, bytesTotal: first.bytes + second.bytes });
  });

  test("that exists already downloads nothing", async () => {
    await setStage();
    await addAddon(small, options());
    const before = registry.asked.length;
    expect(await addAddon(small, options())).toEqual({ directory: place(), wasThere: true });
    expect(registry.asked.length).toBe(before);
  });

  test("of which a file was lost downloads it again", async () => {
    await setStage();
    await addAddon(small, options());
    rmSync(place("half.bin"));
    expect(addonState(small, dataDir)).toBe("incomplete");
    expect(addedModels(dataDir, [small])).toEqual([]);
    expect(await addAddon(small, options())).toMatchObject({ wasThere: false });
    expect(readFileSync(place("half.bin")).equals(Buffer.from(half))).toBe(true);
  });

  test("resumes after an interruption at the byte where it stopped, and downloads no finished package again", async () => {
    await setStage();
    const stop = new AbortController();
    // The first package comes whole, the second not.
    const begun = options({ signal: stop.signal });
    let stopping: Promise<void> | null = null;
    const stopInSecond = (step: Progress): void => {
      if (step.step === "unpacking") registry.silentAfter = 40_000;
      if (step.step === "fetching" && step.what.startsWith("@tiny"))
        stopping ??= eventually("it has come", () => fetchedBytes() === 40_000);
      void stopping?.finally(() => stop.abort());
    };
    expect(await addAddon(addon, { ...begun, onProgress: stopInSecond })).toMatchObject({ kind: "interrupted" });
    expect(addonState(addon, dataDir)).toBe("incomplete");
    expect(existsSync(place())).toBe(false);
    expect(fetchedBytes()).toBe(40_000);

    registry.silentAfter = null;
    registry.asked.length = 0;
    const steps = options();
    expect(await addAddon(addon, steps)).toMatchObject({ wasThere: false });
    expect(registry.asked).toEqual(["@tiny/second bytes=40000-"]);
    expect(steps.steps.find((step) => step.step === "fetching")).toMatchObject({ bytesTotal: first.bytes + second.bytes });
    expect(readFileSync(place("model.bin")).equals(Buffer.concat([half, otherHalf]))).toBe(true);
  });

  test("resumes by itself when the connection breaks", async () => {
    await setStage();
    registry.breakAfter = 30_000;
    expect(await addAddon(small, options())).toMatchObject({ wasThere: false });
    expect(registry.asked).toEqual(["tiny-first", "tiny-first bytes=30000-"]);
  });

  test("restarts a package if the registry does not support ranges", async () => {
    await setStage();
    registry.breakAfter = 30_000;
    registry.knowsRanges = false;
    const wishes = options();
    expect(await addAddon(small, wishes)).toMatchObject({ wasThere: false });
    expect(registry.asked).toEqual(["tiny-first", "tiny-first bytes=30000-"]);
    expect(wishes.steps.filter((step) => step.step === "packing")).toEqual([]);
    expect(readFileSync(place("half.bin")).equals(Buffer.from(half))).toBe(true);
  });

  test("rejects an archive with another hash, reports both, and keeps nothing of it", async () => {
    await setStage();
    registry.forged = noise(first.bytes);
    const { kind, message } = await problemOf();
    expect(kind).toBe("differs");
    expect(message).toContain(first.integrity);
    expect(message).toContain(sha512(registry.forged));
    expect(inWorkshop()).toEqual([]);
    expect(existsSync(place())).toBe(false);

    registry.forged = null;
    expect(await addAddon(small, options())).toMatchObject({ wasThere: false });
  });

  test("downloads nothing from a registry that has another package of that name", async () => {
    await setStage();
    registry.claimedIntegrity = sha512(noise(10));
    const { kind, message } = await problemOf();
    expect(kind).toBe("differs");
    expect(message).toContain(registry.claimedIntegrity);
    expect(registry.asked).toEqual([]);
  });

  test("rejects a file with another hash, although its archive is the right one", async () => {
    await setStage();
    const wrong = "0".repeat(64);
    const files = small.files.map((kept) =>
      kept.path === "half.bin" ? { ...kept, pieces: kept.pieces.map((piece) => ({ ...piece, sha256: wrong })) } : kept,
    );
    const { kind, message } = await problemOf({}, { ...small, files });
    expect(kind).toBe("differs");
    expect(message).toContain(wrong);
    expect(message).toContain(sha256(half));
    expect(inWorkshop().filter((name) => name.includes("half"))).toEqual([]);
  });

  test("rejects an archive that does not contain a file", async () => {
    await setStage();
    const files = [...small.files, file("more.bin", { from: first, entry: "more.bin", contents: config })];
    expect((await problemOf({}, { ...small, files })).message).toContain("more.bin is not in tiny-first@1.2.3");
  });

  test("uses no path from an archive", async () => {
    await setStage();
    const hostile = published("tiny-hostile", {
      "package/../../../../escaped.txt": config,
      "/escaped.txt": config,
      "package/kept.json": config,
    });
    registry.publish(hostile);
    const { name, version, integrity, bytes } = hostile;
    const files = [file("kept.json", { from: hostile, entry: "kept.json", contents: config })];
    expect(await addAddon({ ...addon, packages: [{ name, version, integrity, bytes }], files }, options())).toMatchObject({
      wasThere: false,
    });
    const all = readdirSync(dataDir, { recursive: true, encoding: "utf8" });
    expect(all.filter((path) => path.includes("escaped"))).toEqual([]);
    expect(existsSync("/escaped.txt")).toBe(false);
  });

  test("reports a package that the registry does not have", async () => {
    await setStage();
    expect(await problemOf({ env: npmEnvironment() }, ofPackage({ name: "tiny-nowhere" }))).toMatchObject({
      kind: "unavailable",
      message: expect.stringMatching(/The registry has no tiny-nowhere@1\.2\.3\. \(npm says: E404/),
    });
  });

  test("reports a version that the registry does not have", async () => {
    await setStage();
    expect((await problemOf({ env: npmEnvironment() }, ofPackage({ version: "9.9.9" }))).message).toContain(
      "The registry has no tiny-first@9.9.9.",
    );
  });

  test("reports a registry that cannot be reached", async () => {
    await setStage();
    const env = npmEnvironment({ npm_config_registry: "http://127.0.0.1:9/" });
    expect(await problemOf({ env })).toMatchObject({ kind: "unavailable", message: expect.stringContaining("cannot be reached") });
  });

  test("lets npm download if the registry requires credentials that only npm has", async () => {
    await setStage();
    registry.token = "secret-of-the-user";
    const userconfig = join(dataDir, "npmrc");
    writeFileSync(userconfig, `//127.0.0.1:${registry.port}/:_authToken=secret-of-the-user\n`);
    const wishes = options({ env: npmEnvironment({ npm_config_userconfig: userconfig }) });
    expect(await addAddon(addon, wishes)).toMatchObject({ wasThere: false });
    expect(wishes.steps.filter((step) => step.step === "packing").map((step) => step.what)).toEqual([
      "tiny-first@1.2.3",
      "@tiny/second@1.2.3",
    ]);
    expect(readFileSync(place("model.bin")).equals(Buffer.concat([half, otherHalf]))).toBe(true);
  });

  test("that is interrupted before it begins, or at any step, fails with that reason only", async () => {
    await setStage();
    expect(await problemOf({ signal: AbortSignal.abort() })).toMatchObject({ kind: "interrupted" });
    for (const step of ["asking", "fetching", "checking", "unpacking"]) {
      const stop = new AbortController();
      const onProgress = (progress: Progress): void => {
        if (progress.step === step) stop.abort();
      };
      expect(await problemOf({ signal: stop.signal, onProgress })).toMatchObject({ kind: "interrupted" });
    }
    expect(await addAddon(small, options())).toMatchObject({ wasThere: false });
  });

  test("reports a missing npm", async () => {
    await setStage();
    expect(await problemOf({ env: npmEnvironment({ PATH: join(home, "nothing") }) })).toMatchObject({
      kind: "no_npm",
      message: expect.stringContaining("npm was not found on the PATH"),
    });
  });

  test("checks the disk space first, and downloads nothing if there is not enough", async () => {
    await setStage();
    const { kind, message } = await problemOf({ freeBytes: async () => 1_000_000 });
    expect(kind).toBe("no_space");
    expect(message).toMatch(/adding it needs 1\d\.\d MB, and 1\.0 MB are free/);
    expect(registry.asked).toEqual([]);
  });

  test("is possible only on the platforms of its engine", async () => {
    await setStage();
    expect(await problemOf({ platform: "plan9-mips" }, { ...addon, platforms: ["linux-x64"] })).toMatchObject({
      kind: "platform",
      message: "tiny runs on linux-x64 only; this is plan9-mips.",
    });
  });

  test("is done by one process at a time, and the lock of a dead one is ignored", async () => {
    await setStage();
    const turn = join(dataDir, "models", ".adding", "tiny", "turn");
    mkdirSync(dirname(turn), { recursive: true });
    writeFileSync(turn, String(process.ppid));
    expect(await problemOf()).toMatchObject({ kind: "busy", message: expect.stringContaining(String(process.ppid)) });
    const dead = Bun.spawn(["true"]);
    await dead.exited;
    writeFileSync(turn, String(dead.pid));
    expect(await addAddon(small, options())).toMatchObject({ wasThere: false });
  });

  test("reports a folder that cannot be written", async () => {
    await setStage();
    writeFileSync(join(dataDir, "models"), "in the way");
    expect(await problemOf()).toMatchObject({ kind: "files", message: expect.stringContaining("cannot be written") });
  });
});

describe("removing a model", () => {
  test("deletes it completely", async () => {
    await setStage();
    await addAddon(small, options());
    expect(await removeAddon(small, dataDir)).toBe(true);
    expect(addonState(small, dataDir)).toBe("available");
    expect(readdirSync(join(dataDir, "models"))).toEqual([".adding"]);
    expect(await removeAddon(small, dataDir)).toBe(false);
  });

  test("deletes the partial download of an incomplete one", async () => {
    await setStage();
    mkdirSync(join(dataDir, "models", ".adding", "tiny"), { recursive: true });
    expect(addonState(addon, dataDir)).toBe("incomplete");
    expect(await removeAddon(addon, dataDir)).toBe(true);
    expect(addonState(addon, dataDir)).toBe("available");
  });
});

describe("the command", () => {
  const root = resolve(import.meta.dir, "../..");
  const script = `
    import { runModels } from ${JSON.stringify(join(root, "src/cli/models/models.ts"))};
    import { nearest } from ${JSON.stringify(join(root, "src/config/findings/nearest.ts"))};
    const { request, addons, dataDir, env } = JSON.parse(await Bun.stdin.text());
    process.exitCode = await runModels(request, { dataDir, env, nearest, asTyped: (text) => text, addons });
  `;

  function run(
    request: object,
    env = npmEnvironment(),
  ): { readonly child: Bun.Subprocess<Blob, "pipe", "pipe">; readonly ended: Promise<Ended> } {
    const child = Bun.spawn([process.execPath, "-e", script], {
      stdin: new Blob([JSON.stringify({ request, addons: [addon], dataDir, env })]),
      stdout: "pipe",
      stderr: "pipe",
    });
    cleanups.push(() => child.kill("SIGKILL"));
    const ended = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
    return { child, ended: ended.then(([said, cried, code]) => ({ said, cried, code })) };
  }

  interface Ended {
    readonly said: string;
    readonly cried: string;
    readonly code: number;
  }

  test("prints what it added and where, and the list shows it", async () => {
    await setStage();
    const { said, cried, code } = await run({ act: "add", name: "embedded/tiny" }).ended;
    expect({ code, said }).toEqual({ code: 0, said: expect.stringMatching(/^Added embedded\/tiny \(190\.0 kB\) in .+\/models\/tiny\./) });
    expect(cried).toMatch(/Fetching tiny-first@1\.2\.3: .+ of 190\.\d kB, \d+ %/);
    const listed = JSON.parse((await run({ act: "list", json: true }).ended).said) as readonly object[];
    expect(listed).toContainEqual(expect.objectContaining({ id: "embedded/tiny", state: "added", licence: "MIT", bytes: 190_012 }));
    expect(listed).toContainEqual(expect.objectContaining({ id: "embedded/whisper-base", operation: "transcription", fetchBytes: 0 }));
    expect((await run({ act: "remove", name: "tiny" }).ended).code).toBe(0);
    expect((await run({ act: "list", json: false }).ended).said).toMatch(/embedded\/tiny +transcription +190\.0 kB +available +MIT\n/);
  });

  test("suggests the nearest name for an unknown one, with exit code 64", async () => {
    await setStage();
    const { cried, code } = await run({ act: "add", name: "tiyn" }).ended;
    expect(code).toBe(64);
    expect(cried).toContain(`There is no model "tiyn". Did you mean tiny?`);
  });

  test("neither adds nor removes built-in models", async () => {
    await setStage();
    const [added, removed] = await Promise.all([run({ act: "add", name: "flite" }).ended, run({ act: "remove", name: "flite" }).ended]);
    expect(added.said + added.cried).toContain("embedded/flite is built in");
    expect(removed).toMatchObject({ code: 1, cried: "embedded/flite is built in and cannot be removed.\n" });
  });

  test("fails with the reason, on one line", async () => {
    await setStage();
    const { cried, code } = await run({ act: "add", name: "tiny" }, npmEnvironment({ PATH: join(home, "nothing") })).ended;
    expect(code).toBe(1);
    expect(cried).toStartWith("embedded/tiny was not added. npm was not found on the PATH.");
  });

  test("stops at once on Ctrl-C, says that it can be resumed, and is", async () => {
    await setStage();
    registry.silentAfter = 20_000;
    const { child, ended } = run({ act: "add", name: "tiny" }, quickEnvironment());
    await eventually("the first bytes are on the disk", () => fetchedBytes() === 20_000, 30_000);
    child.kill("SIGINT");
    const { cried, code } = await ended;
    expect(code).toBe(130);
    expect(cried).toContain("Stopped. The partial download is kept: to continue it, run sluice models add tiny again.\n");

    registry.silentAfter = null;
    registry.asked.length = 0;
    expect((await run({ act: "add", name: "tiny" }, quickEnvironment()).ended).code).toBe(0);
    expect(registry.asked).toEqual(["tiny-first bytes=20000-", "@tiny/second"]);
  });

  test("does not wait for an npm that hangs on Ctrl-C", async () => {
    await setStage();
    const folder = join(dataDir, "slow");
    mkdirSync(folder);
    writeFileSync(join(folder, "npm"), `#!/bin/sh\ntouch ${join(dataDir, "begun")}\nexec sleep 60\n`);
    chmodSync(join(folder, "npm"), 0o755);
    const { child, ended } = run({ act: "add", name: "tiny" }, npmEnvironment({ PATH: `${folder}:${process.env["PATH"]}` }));
    await eventually("npm runs", () => existsSync(join(dataDir, "begun")), 30_000);
    child.kill("SIGINT");
    expect((await ended).code).toBe(130);
  });
});
