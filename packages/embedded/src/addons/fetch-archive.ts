import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { packageSpec, type AddonPackage } from "./addon.ts";
import { download } from "./download.ts";
import { fileHash } from "./files.ts";
import type { Npm } from "./npm.ts";
import { isProblem, problem, type AddProblem, type Progress } from "./progress.ts";

export interface FetchOptions {
  readonly npm: Npm;
  readonly proxies: Promise<Proxies>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
  /** Called with the downloaded bytes of this package. */
  readonly onBytes: (bytes: number) => void;
}

/** By the names of npm's settings: `proxy` and `https-proxy`. */
export type Proxies = ReadonlyMap<string, string>;

/**
 * Returns the path of a package's verified archive. npm says where it is, and we download it from there, because only then a broken
 * download can be resumed. If that does not work, for example with a registry that needs credentials, npm downloads it.
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
  const error = await download(address, part, { bytes: pinned.bytes, proxy, signal: options.signal, onBytes: options.onBytes });
  if (options.signal.aborted) return problem("interrupted", `Fetching ${spec} was stopped.`);
  if (error !== null) {
    options.onProgress({ step: "packing", what: spec, reason: error.reason });
    const packed = await pack(pinned, folder, part, options);
    if (packed !== null) return packed;
  }

  options.onProgress({ step: "checking", what: spec });
  const got = await fileHash(part, "sha512", "base64");
  if (got !== hashOf(pinned)) {
    await rm(part, { force: true });
    return differs(spec, pinned.integrity, `sha512-${got}`, "It was deleted; run the command again to download it.");
  }
  await rename(part, whole);
  return whole;
}

/** Contains the version, so that a partial archive of another version is never used. */
function archiveName({ name, version }: AddonPackage): string {
  return `${name.replaceAll(/[^\w.-]+/g, "_")}-${version}`;
}

function hashOf({ integrity }: AddonPackage): string {
  return integrity.replace(/^sha512-/, "");
}

function differs(spec: string, expected: string, got: string, consequence: string): AddProblem {
  return problem("differs", `${spec} is not the package it should be: expected ${expected}, got ${got}. ${consequence}`);
}

/** Asks the registry for the URL of the archive. If it has another hash than ours, nothing is downloaded. */
async function askAddress(pinned: AddonPackage, { npm, signal }: FetchOptions): Promise<string | AddProblem> {
  const spec = packageSpec(pinned);
  // With npm's defaults this could take minutes without any output.
  const npmTimeouts = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000"];
  const output = await npm.run(["view", spec, "dist", "--json", ...npmTimeouts], { timeoutMs: 120_000, signal });
  if (typeof output !== "string") return output;
  const { tarball, integrity } = parsed(output);
  if (typeof integrity === "string" && integrity.startsWith("sha512-") && integrity !== pinned.integrity) {
    return differs(spec, pinned.integrity, integrity, "Nothing was fetched.");
  }
  if (typeof tarball === "string" && /^https?:\/\//.test(tarball)) return tarball;
  return problem("unavailable", `The registry has no ${spec}. (npm says: ${output.trim().slice(0, 200) || "nothing"})`);
}

function parsed(json: string): { readonly tarball?: unknown; readonly integrity?: unknown } {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/** The proxies in npm's settings. Those of the environment are used by `fetch` itself. */
export async function askProxies(npm: Npm, signal: AbortSignal): Promise<Proxies> {
  const output = await npm.run(["config", "get", "https-proxy", "proxy"], { timeoutMs: 30_000, signal });
  const lines = typeof output === "string" ? output.matchAll(/^(https-proxy|proxy)=(https?:\/\/\S+)$/gm) : [];
  return new Map([...lines].map(([, name = "", address = ""]) => [name, address]));
}

/** Lets npm download the archive, which can use npm's cache. */
async function pack(pinned: AddonPackage, folder: string, to: string, { npm, signal }: FetchOptions): Promise<AddProblem | null> {
  const spec = packageSpec(pinned);
  const destination = join(folder, "packed");
  await rm(destination, { recursive: true, force: true });
  await mkdir(destination, { recursive: true });
  const output = await npm.run(["pack", spec, "--json", "--ignore-scripts", "--pack-destination", destination], {
    timeoutMs: packMs,
    signal,
  });
  if (typeof output !== "string") return output;
  const [archive] = (await readdir(destination)).filter((name) => name.endsWith(".tgz"));
  if (archive === undefined) return problem("unavailable", `npm downloaded no archive of ${spec}.`);
  await rename(join(destination, archive), to);
  await rm(destination, { recursive: true, force: true });
  return null;
}

const packMs = 60 * 60 * 1000;
