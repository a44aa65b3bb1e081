import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { StorageTrouble } from "../../gateway/storage.ts";

/**
 * Makes a file that is either there and whole or not there at all: it is made under another name beside it, for nobody else
 * to read, and gets its own when it has reached the disk. Where the making says false or fails, nothing is left.
 */
export async function writeAtomically(file: string, make: (part: string) => Promise<boolean>): Promise<boolean> {
  return withTempFile(file, async (part) => {
    if (!(await make(part))) return false;
    fsyncPath(part);
    renameSync(part, file);
    fsyncPath(dirname(file));
    return true;
  });
}

/** A file beside another, for nobody else to read, that is gone after its use, and when the process ends over it as well. */
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

/** Removes the parts of a file that a process left which was killed over them. */
export function removeAbandoned(file: string): void {
  const folder = dirname(file);
  const names = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.`) && /\.part(-wal|-shm|-journal)?$/.test(name));
  for (const name of names) if (Date.now() - changedMs(join(folder, name)) > abandonedMs) rmSync(join(folder, name), { force: true });
}

function changedMs(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
}

const abandonedMs = 3_600_000;

export function fsyncPath(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

export function fileError(error: unknown, file: string): StorageTrouble {
  if (error instanceof StorageTrouble) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT" || code === "EROFS") {
    return new StorageTrouble("full", `There is no room for ${file}: ${message}. Make room on its disk, or choose another place.`);
  }
  return new StorageTrouble("unavailable", `${file} cannot be made: ${message}. Check that its folder exists and may be written.`);
}
