import { randomUUID } from "node:crypto";
import { closeSync, openSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { StorageError } from "../../gateway/storage.ts";

/**
 * Writes a file so that it either exists completely or not at all: `make` fills a private temporary file beside it, which is synced
 * and then renamed. If `make` returns false or throws, the temporary file is deleted.
 */
export async function writeAtomically(file: string, make: (part: string) => Promise<boolean>): Promise<boolean> {
  return withTempFile(file, async (part) => {
    if (!(await make(part))) return false;
    await fsyncPath(part);
    renameSync(part, file);
    await fsyncPath(dirname(file));
    return true;
  });
}

/** Provides a private temporary file beside `file`, which is deleted afterwards, also when the process exits in between. */
export async function withTempFile<T>(file: string, use: (part: string) => Promise<T>): Promise<T> {
  const part = `${file}.${randomUUID()}.part`;
  const remove = (): void => {
    for (const rest of [part, `${part}-journal`, `${part}-wal`, `${part}-shm`]) rmSync(rest, { force: true });
  };
  process.once("exit", remove);
  try {
    closeSync(openSync(part, "wx", 0o600));
    return await use(part);
  } catch (error) {
    throw fileError(error, file);
  } finally {
    process.off("exit", remove);
    remove();
  }
}

/** Deletes temporary files of `file` that killed processes left behind. */
export function removeAbandoned(file: string): void {
  const folder = dirname(file);
  const names = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.`) && /\.part(-wal|-shm|-journal)?$/.test(name));
  for (const name of names) if (Date.now() - changedMs(join(folder, name)) > abandonedMs) rmSync(join(folder, name), { force: true });
}

function changedMs(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
}

const abandonedMs = 3_600_000;

/** Not on this thread: a disk may take seconds for gigabytes, and a gateway may be serving calls meanwhile. */
export async function fsyncPath(path: string): Promise<void> {
  await using handle = await open(path, "r");
  await handle.sync();
}

export function fileError(error: unknown, file: string): StorageError {
  if (error instanceof StorageError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT" || code === "EROFS") {
    return new StorageError("full", `There is no space for ${file}: ${message}. Free some space on its disk, or choose another folder.`);
  }
  return new StorageError("unavailable", `${file} cannot be created: ${message}. Check that its folder exists and is writable.`);
}
