import { mkdir, open, rename, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fetchedBytes, modelId, packageSpec, total, type Addon, type AddonFile, type AddonPackage } from "./addon.ts";
import { isDiskError } from "./download.ts";
import { askProxies, fetchArchive } from "./fetch-archive.ts";
import { isFile, writeAll } from "./files.ts";
import { addonState, manifest, addonFolder, manifestName, modelsFolder, stagingFolder } from "./installed.ts";
import { findNpm, type Npm } from "./npm.ts";
import { isProblem, problem, type AddProblem, type Progress, shownBytes } from "./progress.ts";
import { acquireLock } from "./lock.ts";
import { unpack, type PieceTarget } from "./unpack.ts";

export interface AddOptions {
  readonly dataDir: string;
  /** The environment for npm. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
  /** The free disk space; from the file system by default. */
  readonly freeBytes?: (folder: string) => Promise<number>;
  readonly platform?: string;
}

export interface Added {
  readonly directory: string;
  /** The add-on was there already. */
  readonly wasThere: boolean;
}

/**
 * Downloads an add-on, verifies it and moves it to its final folder. Verified packages and extracted files stay in a staging folder
 * until everything is complete, so that a retry continues where the last one ended.
 */
export async function addAddon(addon: Addon, options: AddOptions): Promise<Added | AddProblem> {
  const directory = addonFolder(options.dataDir, addon.name);
  if (addonState(addon, options.dataDir) === "added") return { directory, wasThere: true };
  const platform = options.platform ?? `${process.platform}-${process.arch}`;
  if (addon.platforms !== null && !addon.platforms.includes(platform)) {
    return problem("platform", `${addon.name} runs on ${addon.platforms.join(" and ")} only; this is ${platform}.`);
  }
  const npm = findNpm(options.env);
  if (isProblem(npm)) return npm;
  try {
    const folder = stagingFolder(options.dataDir, addon.name);
    await mkdir(folder, { recursive: true });
    const lock = await acquireLock(join(folder, "turn"));
    if (isProblem(lock)) return lock;
    try {
      return (await assembleAddon(addon, folder, npm, options)) ?? { directory, wasThere: false };
    } finally {
      await lock.release();
    }
  } catch (error) {
    if (isDiskError(error) || hasCode(error)) return diskProblem(error, options.dataDir);
    throw error;
  }
}

async function assembleAddon(addon: Addon, folder: string, npm: Npm, options: AddOptions): Promise<AddProblem | null> {
  const staging = stagingOf(addon, folder);
  const missing = await staging.missing();
  const space = await checkSpace(addon, missing, folder, options);
  if (space !== null) return space;

  const { signal, onProgress } = options;
  const proxies = missing.length === 0 ? Promise.resolve(new Map<string, string>()) : askProxies(npm, signal);
  const bytesTotal = fetchedBytes(addon);
  let before = bytesTotal - total(missing);
  for (const pinned of missing) {
    const what = packageSpec(pinned);
    const onBytes = (bytes: number): void => onProgress({ step: "fetching", what, bytes: before + bytes, bytesTotal });
    const archive = await fetchArchive(pinned, staging.archives, { npm, proxies, signal, onProgress, onBytes });
    if (isProblem(archive)) return archive;
    onProgress({ step: "unpacking", what });
    const unpacked = await unpack(archive, what, staging.targetsOf(pinned), signal);
    // The archive has the pinned hash, so that downloading it again would not help. It is deleted in any case.
    await rm(archive, { force: true });
    if (unpacked !== null) return unpacked;
    before += pinned.bytes;
  }

  for (const file of addon.files) {
    if (signal.aborted) return problem("interrupted", "Assembling the files was stopped.");
    const assembled = await assemble(file, staging, options);
    if (assembled !== null) return assembled;
  }
  await publish(addon, staging.tree, options.dataDir);
  await rm(folder, { recursive: true, force: true });
  return null;
}

/** The files of an add-on while it is being assembled. */
interface Staging {
  readonly archives: string;
  /** Becomes the folder of the add-on. */
  readonly tree: string;
  /** Where a piece is extracted to: its final path if it is the whole file. */
  pathOf(file: AddonFile, index: number): string;
  targetsOf(pinned: AddonPackage): readonly PieceTarget[];
  /** The packages of which something is missing. */
  missing(): Promise<readonly AddonPackage[]>;
}

function stagingOf(addon: Addon, folder: string): Staging {
  const tree = join(folder, "tree");
  const pathOf = (file: AddonFile, index: number): string =>
    file.pieces.length === 1 ? join(tree, file.path) : join(folder, "pieces", `${file.path}.${index}`);
  const targetsOf = ({ name }: AddonPackage): readonly PieceTarget[] =>
    addon.files.flatMap((file) =>
      file.pieces.map((piece, index) => ({ ...piece, to: pathOf(file, index) })).filter((target) => target.package === name),
    );
  const missing = async (): Promise<readonly AddonPackage[]> => {
    const packages: AddonPackage[] = [];
    for (const pinned of addon.packages) if (!(await exist(targetsOf(pinned)))) packages.push(pinned);
    return packages;
  };
  return { archives: join(folder, "archives"), tree, pathOf, targetsOf, missing };
}

async function exist(pieces: readonly PieceTarget[]): Promise<boolean> {
  for (const piece of pieces) if (!(await isFile(piece.to, piece))) return false;
  return true;
}

/** Concatenates the pieces of a file. */
async function assemble(file: AddonFile, staging: Staging, options: AddOptions): Promise<AddProblem | null> {
  if (file.pieces.length === 1) return null;
  options.onProgress({ step: "unpacking", what: file.path });
  const to = join(staging.tree, file.path);
  await mkdir(dirname(to), { recursive: true });
  const hasher = new Bun.CryptoHasher("sha256");
  const target = await open(to, "w");
  try {
    for (const index of file.pieces.keys()) {
      for await (const chunk of Bun.file(staging.pathOf(file, index)).stream()) {
        hasher.update(chunk);
        await writeAll(target, chunk);
      }
    }
    await target.sync();
  } finally {
    await target.close();
  }
  const got = hasher.digest("hex");
  if (got === file.sha256) return null;
  await rm(to, { force: true });
  return problem("differs", `${file.path} is not the file it should be: expected SHA-256 ${file.sha256}, got ${got}. It was removed.`);
}

/** The manifest, which marks the add-on as complete, is written last. Then the folder is renamed at once. */
async function publish(addon: Addon, tree: string, dataDir: string): Promise<void> {
  const file = await open(join(tree, manifestName), "w");
  try {
    await writeAll(file, new TextEncoder().encode(manifest(addon)));
    await file.sync();
  } finally {
    await file.close();
  }
  const folder = addonFolder(dataDir, addon.name);
  await rm(folder, { recursive: true, force: true });
  await rename(tree, folder);
}

/** Checked before anything is downloaded, because a disk that fills up halfway harms others as well. */
async function checkSpace(addon: Addon, missing: readonly AddonPackage[], folder: string, options: AddOptions): Promise<AddProblem | null> {
  const staging = stagingOf(addon, folder);
  const pieces = missing.flatMap((pinned) => staging.targetsOf(pinned));
  const assembled = addon.files.filter((file) => file.pieces.length > 1);
  // Each archive is deleted after extraction, so that only the largest one counts.
  const largest = Math.max(0, ...missing.map(({ bytes }) => bytes));
  const needed = total(pieces) + total(assembled) + largest + spareBytes;
  const free = await (options.freeBytes ?? freeBytes)(folder);
  if (free >= needed) return null;
  return problem(
    "no_space",
    `There is not enough disk space for ${modelId(addon)} in ${modelsFolder(options.dataDir)}: adding it needs ${shownBytes(needed)}, ` +
      `and ${shownBytes(free)} are free. Free some space, or set data_dir to another disk.`,
  );
}

/** For directories, and so that the disk is not filled completely. */
const spareBytes = 16 * 1024 * 1024;

async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

function hasCode(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && "code" in error && typeof error.code === "string" && "syscall" in error;
}

function diskProblem(error: Error & { readonly code: string }, dataDir: string): AddProblem {
  if (error.code === "ENOSPC")
    return problem(
      "no_space",
      `The disk of ${modelsFolder(dataDir)} is full. Free some space and run the command again: it continues where it stopped.`,
    );
  return problem("files", `${modelsFolder(dataDir)} cannot be written (${error.message}). Check its permissions.`);
}
