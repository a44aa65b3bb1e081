import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { StorageTrouble } from "../gateway/storage.ts";

/**
 * Makes a file that is either there and whole or not there at all: it is made under another name beside it, for nobody else
 * to read, and gets its own when it has reached the disk. Where the making says false or fails, nothing is left.
 */
export async function wholeFile(file: string, make: (part: string) => Promise<boolean>): Promise<boolean> {
  const part = `${file}.${randomUUID()}.part`;
  try {
    closeSync(openSync(part, "wx", 0o600));
    if (!(await make(part))) return false;
    reachDisk(part);
    renameSync(part, file);
    reachDisk(dirname(file));
    return true;
  } catch (error) {
    throw fileTrouble(error, file);
  } finally {
    for (const rest of [part, `${part}-journal`, `${part}-wal`, `${part}-shm`]) rmSync(rest, { force: true });
  }
}

export function reachDisk(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

export function fileTrouble(error: unknown, file: string): StorageTrouble {
  if (error instanceof StorageTrouble) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT" || code === "EROFS") {
    return new StorageTrouble("full", `There is no room for ${file}: ${message}. Make room on its disk, or choose another place.`);
  }
  return new StorageTrouble("unavailable", `${file} cannot be made: ${message}. Check that its folder exists and may be written.`);
}
