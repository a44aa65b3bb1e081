import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { packageSpec, type AddonPackage } from "./addon.ts";
import { download } from "./download.ts";
import { fileHash } from "./file-hash.ts";
import type { Npm } from "./npm.ts";
import { isProblem, problem, type AddProblem } from "./problem.ts";
import type { Progress } from "./progress.ts";

export interface FetchOptions {
  readonly npm: Npm;
  readonly proxies: Promise<Proxies>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
  /** Of this package. */
  readonly onBytes: (bytes: number) => void;
}

/** By the names of npm's settings: `proxy` and `https-proxy`. */
export type Proxies = ReadonlyMap<string, string>;

/**
 * The path of a package's archive, which is then known to be the right one. npm tells where it lies and we fetch it from
 * there, since only so a broken download can go on. Where that does not work, as with a registry that wants credentials,
 * npm fetches it as a whole.
 */
export async function fetchArchive(pinned: AddonPackage, folder: string, options: FetchOptions): Promise<string | AddProblem> {
  const spec = packageSpec(pinned);
  const whole = join(folder, `${archiveName(pinned)}.tgz`);
  if ((await fileHash(whole, "sha512", "base64")) === hashOf(pinned)) return whole;
  await rm(whole, { force: true });
  await mkdir(folder, { recursive: true });

  options.onProgress({ step: "asking", what: spec });
  const [address, proxies] = await Promise.all([askAddress(pinned, options), options.proxies]);
  if (isProblem(address)) return address;

  const part = `${whole}.part`;
  const proxy = proxies.get(address.startsWith("https:") ? "https-proxy" : "proxy") ?? null;
  const fault = await download(address, part, { bytes: pinned.bytes, proxy, signal: options.signal, onBytes: options.onBytes });
  if (options.signal.aborted) return problem("interrupted", `Fetching ${spec} was stopped.`);
  if (fault !== null) {
    options.onProgress({ step: "packing", what: spec, reason: fault.reason });
    const packed = await pack(pinned, folder, part, options);
    if (packed !== null) return packed;
  }

  options.onProgress({ step: "checking", what: spec });
  const got = await fileHash(part, "sha512", "base64");
  if (got !== hashOf(pinned)) {
    await rm(part, { force: true });
    return differs(spec, pinned.integrity, `sha512-${got}`, "It was removed; adding it again fetches it anew.");
  }
  await rename(part, whole);
  return whole;
}

/** So that what is left of another version is never taken for this one. */
function archiveName({ name, version }: AddonPackage): string {
  return `${name.replaceAll(/[^\w.-]+/g, "_")}-${version}`;
}

function hashOf({ integrity }: AddonPackage): string {
  return integrity.replace(/^sha512-/, "");
}

function differs(spec: string, expected: string, got: string, consequence: string): AddProblem {
  return problem("differs", `${spec} is not the package it should be: expected ${expected}, got ${got}. ${consequence}`);
}

/** Where the registry says that the archive lies. One that says it has another archive is not asked for it. */
async function askAddress(pinned: AddonPackage, { npm, signal }: FetchOptions): Promise<string | AddProblem> {
  const spec = packageSpec(pinned);
  // Its own patience would be minutes, of which a terminal shows nothing.
  const patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000"];
  const said = await npm.run(["view", spec, "dist", "--json", ...patience], { timeoutMs: 120_000, signal });
  if (typeof said !== "string") return said;
  const { tarball, integrity } = parsed(said);
  if (typeof integrity === "string" && integrity.startsWith("sha512-") && integrity !== pinned.integrity) {
    return differs(spec, pinned.integrity, integrity, "Nothing was fetched.");
  }
  if (typeof tarball === "string" && /^https?:\/\//.test(tarball)) return tarball;
  return problem("unavailable", `The registry has no ${spec}. (npm says: ${said.trim().slice(0, 200) || "nothing"})`);
}

function parsed(json: string): { readonly tarball?: unknown; readonly integrity?: unknown } {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** The proxies in npm's settings. Those in the environment are heeded without our help. */
export async function askProxies(npm: Npm, signal: AbortSignal): Promise<Proxies> {
  const said = await npm.run(["config", "get", "https-proxy", "proxy"], { timeoutMs: 30_000, signal });
  const lines = typeof said === "string" ? said.matchAll(/^(https-proxy|proxy)=(https?:\/\/\S+)$/gm) : [];
  return new Map([...lines].map(([, name = "", address = ""]) => [name, address]));
}

/** Lets npm fetch the archive, which takes what its cache has. */
async function pack(pinned: AddonPackage, folder: string, to: string, { npm, signal }: FetchOptions): Promise<AddProblem | null> {
  const spec = packageSpec(pinned);
  const destination = join(folder, "packed");
  await rm(destination, { recursive: true, force: true });
  await mkdir(destination, { recursive: true });
  const said = await npm.run(["pack", spec, "--json", "--ignore-scripts", "--pack-destination", destination], {
    timeoutMs: packMs,
    signal,
  });
  if (typeof said !== "string") return said;
  const [archive] = (await readdir(destination)).filter((name) => name.endsWith(".tgz"));
  if (archive === undefined) return problem("unavailable", `npm fetched no archive of ${spec}.`);
  await rename(join(destination, archive), to);
  await rm(destination, { recursive: true, force: true });
  return null;
}

const packMs = 60 * 60 * 1000;
