import { readFileSync } from "node:fs";

/** What npm wrote down of every package it would install. */
export interface Lockfile {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

export interface LockedPackage {
  /** Where it differs from the folder: one package in the place of another. */
  readonly name?: string;
  readonly version?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly hasInstallScript?: boolean;
  readonly resolved?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly devOptional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** The folders of this repository that have a lock. */
export const lockedFolders = [".", "test", "test/agents", "test/langchain", "test/types"] as const;

export function lockOf(folder: string): Lockfile {
  return JSON.parse(readFileSync(new URL(`../${folder}/package-lock.json`, import.meta.url), "utf8")) as Lockfile;
}

/** The packages of others in a lock, by where they are put. */
export function foreignPackages({ packages }: Lockfile): readonly (readonly [path: string, entry: LockedPackage])[] {
  return Object.entries(packages).filter(([path]) => path.includes("node_modules/"));
}

export function nameOf(path: string, { name }: LockedPackage): string {
  return name ?? path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
}

/** Where Node finds a package that another one asks for: beside it, then in each folder above. */
export function resolvedIn(lock: Lockfile, from: string, wanted: string): string | null {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
    const path = `${at === "" ? "" : `${at}/`}node_modules/${wanted}`;
    if (lock.packages[path] !== undefined) return path;
    if (at === "") return null;
  }
}
