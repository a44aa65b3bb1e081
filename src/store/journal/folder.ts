import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * The layout of the journal folder: each process has a slot, a folder with a number as its name, that holds its segments
 * `0001.log`, `0002.log`, and so on.
 */
export function slotFolders(folder: string): readonly string[] {
  return namesIn(folder)
    .filter((name) => /^[1-9][0-9]{0,3}$/.test(name))
    .map(Number)
    .sort((one, other) => one - other)
    .map((slot) => slotFolder(folder, slot));
}

export function slotFolder(folder: string, slot: number): string {
  return join(folder, String(slot));
}

export function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

/** The segment numbers in a slot, oldest first. */
export function segmentsIn(slot: string): readonly number[] {
  return namesIn(slot)
    .map((name) => /^([0-9]{4,12})\.log$/.exec(name)?.[1])
    .filter((digits) => digits !== undefined)
    .map(Number)
    .sort((one, other) => one - other);
}

export function segmentFile(slot: string, segment: number): string {
  return join(slot, `${String(segment).padStart(4, "0")}.log`);
}

/** What a segment is called as soon as all of it is in the store. It is not read again. */
export function finishedFile(slot: string, segment: number): string {
  return segmentFile(slot, segment).replace(/\.log$/, ".done");
}

export function finishedFiles(slot: string): readonly string[] {
  return namesIn(slot)
    .filter((name) => /^[0-9]{4,12}\.done$/.test(name))
    .map((name) => join(slot, name));
}

export function lockFile(slot: string): string {
  return join(slot, "lock");
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
