import { mkdir, open, rename, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fetchedBytes, modelId, packageSpec, total, type Addon, type AddonFile, type AddonPackage } from "./addon.ts";
import { isOfDisk } from "./download.ts";
import { askProxies, fetchArchive } from "./fetch-archive.ts";
import { isFile } from "./file-hash.ts";
import { addonState, manifest } from "./installed.ts";
import { findNpm, type Npm } from "./npm.ts";
import { addonFolder, manifestName, modelsFolder, workshop } from "./places.ts";
import { isProblem, problem, type AddProblem } from "./problem.ts";
import type { Progress } from "./progress.ts";
import { shownBytes } from "./shown-bytes.ts";
import { takeTurn } from "./turn.ts";
import { unpack, type Wanted } from "./unpack.ts";
import { writeAll } from "./write-all.ts";

export interface AddOptions {
  readonly dataDir: string;
  /** What npm is run with. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
  /** How much there is room for; the file system knows. */
  readonly freeBytes?: (folder: string) => Promise<number>;
  readonly platform?: string;
}

export interface Added {
  readonly directory: string;
  /** There was nothing to do. */
  readonly wasThere: boolean;
}

/**
 * Fetches an add-on, checks it and puts it into its place. Each package that was checked and each file that was taken out
 * of one stays in a workshop until all are there, so that the next try goes on from where this one ended.
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
    const folder = workshop(options.dataDir, addon.name);
    await mkdir(folder, { recursive: true });
    const turn = await takeTurn(join(folder, "turn"));
    if (isProblem(turn)) return turn;
    try {
      return (await build(addon, folder, npm, options)) ?? { directory, wasThere: false };
    } finally {
      await turn.end();
    }
  } catch (error) {
    if (isOfDisk(error) || hasCode(error)) return diskProblem(error, options.dataDir);
    throw error;
  }
}

async function build(addon: Addon, folder: string, npm: Npm, options: AddOptions): Promise<AddProblem | null> {
  const bench = workbench(addon, folder);
  const lacking = await bench.lacking();
  const room = await checkRoom(addon, lacking, folder, options);
  if (room !== null) return room;

  const { signal, onProgress } = options;
  const proxies = lacking.length === 0 ? Promise.resolve(new Map<string, string>()) : askProxies(npm, signal);
  const bytesTotal = fetchedBytes(addon);
  let before = bytesTotal - total(lacking);
  for (const pinned of lacking) {
    const what = packageSpec(pinned);
    const onBytes = (bytes: number): void => onProgress({ step: "fetching", what, bytes: before + bytes, bytesTotal });
    const archive = await fetchArchive(pinned, bench.archives, { npm, proxies, signal, onProgress, onBytes });
    if (isProblem(archive)) return archive;
    onProgress({ step: "unpacking", what });
    const unpacked = await unpack(archive, what, bench.wantedOf(pinned), signal);
    // The archive is what we pinned, so if it does not hold what we pinned, fetching it again will not help; it goes all the same.
    await rm(archive, { force: true });
    if (unpacked !== null) return unpacked;
    before += pinned.bytes;
  }

  for (const file of addon.files) {
    if (signal.aborted) return problem("interrupted", "Putting the files together was stopped.");
    const assembled = await assemble(file, bench, options);
    if (assembled !== null) return assembled;
  }
  await putInPlace(addon, bench.tree, options.dataDir);
  await rm(folder, { recursive: true, force: true });
  return null;
}

/** Where the parts of an add-on lie while it is made. */
interface Workbench {
  readonly archives: string;
  /** What becomes the add-on's folder. */
  readonly tree: string;
  /** Where a piece is put: at once at its file's place, where it is all of the file. */
  placeOf(file: AddonFile, index: number): string;
  wantedOf(pinned: AddonPackage): readonly Wanted[];
  /** The packages of which something is not there yet. */
  lacking(): Promise<readonly AddonPackage[]>;
}

function workbench(addon: Addon, folder: string): Workbench {
  const tree = join(folder, "tree");
  const placeOf = (file: AddonFile, index: number): string =>
    file.pieces.length === 1 ? join(tree, file.path) : join(folder, "pieces", `${file.path}.${index}`);
  const wantedOf = ({ name }: AddonPackage): readonly Wanted[] =>
    addon.files.flatMap((file) =>
      file.pieces.map((piece, index) => ({ ...piece, to: placeOf(file, index) })).filter((wanted) => wanted.package === name),
    );
  const lacking = async (): Promise<readonly AddonPackage[]> => {
    const packages: AddonPackage[] = [];
    for (const pinned of addon.packages) if (!(await areThere(wantedOf(pinned)))) packages.push(pinned);
    return packages;
  };
  return { archives: join(folder, "archives"), tree, placeOf, wantedOf, lacking };
}

async function areThere(pieces: readonly Wanted[]): Promise<boolean> {
  for (const piece of pieces) if (!(await isFile(piece.to, piece))) return false;
  return true;
}

/** Puts the pieces of a file one behind the other. */
async function assemble(file: AddonFile, bench: Workbench, options: AddOptions): Promise<AddProblem | null> {
  if (file.pieces.length === 1) return null;
  options.onProgress({ step: "unpacking", what: file.path });
  const to = join(bench.tree, file.path);
  await mkdir(dirname(to), { recursive: true });
  const hasher = new Bun.CryptoHasher("sha256");
  const target = await open(to, "w");
  try {
    for (const index of file.pieces.keys()) {
      for await (const chunk of Bun.file(bench.placeOf(file, index)).stream()) {
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

/** What says that the add-on is complete comes last, and then the folder appears under its name at once. */
async function putInPlace(addon: Addon, tree: string, dataDir: string): Promise<void> {
  const file = await open(join(tree, manifestName), "w");
  try {
    await writeAll(file, new TextEncoder().encode(manifest(addon)));
    await file.sync();
  } finally {
    await file.close();
  }
  const place = addonFolder(dataDir, addon.name);
  await rm(place, { recursive: true, force: true });
  await rename(tree, place);
}

/** Before anything is fetched: a disk that fills up halfway harms others too. */
async function checkRoom(addon: Addon, lacking: readonly AddonPackage[], folder: string, options: AddOptions): Promise<AddProblem | null> {
  const bench = workbench(addon, folder);
  const pieces = lacking.flatMap((pinned) => bench.wantedOf(pinned));
  const inPieces = addon.files.filter((file) => file.pieces.length > 1);
  // An archive goes when it is unpacked, so that of archives there is never more than the largest.
  const largest = Math.max(0, ...lacking.map(({ bytes }) => bytes));
  const needed = total(pieces) + total(inPieces) + largest + spareBytes;
  const free = await (options.freeBytes ?? freeBytes)(folder);
  if (free >= needed) return null;
  return problem(
    "no_space",
    `There is not enough room for ${modelId(addon)} in ${modelsFolder(options.dataDir)}: adding it takes ${shownBytes(needed)}, ` +
      `and ${shownBytes(free)} are free. Make room, or set data_dir to another disk.`,
  );
}

/** For folders, and so that the disk is not filled to the last byte. */
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
    return problem("no_space", `The disk of ${modelsFolder(dataDir)} is full. Make room and add it again: it goes on.`);
  return problem("files", `${modelsFolder(dataDir)} cannot be written (${error.message}).`);
}
