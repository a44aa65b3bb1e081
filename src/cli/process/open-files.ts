import { readFileSync } from "node:fs";

/** How many files this process may have open, which limits its connections. */
export function openFilesMax(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return limit === null ? fallback : Number(limit[1]);
  } catch {
    return fallback;
  }
}

/** The usual soft limit, if the system does not tell. */
const fallback = 1024;

/** Each connection of a client may need one to an upstream. Some files are reserved for the process itself. */
export function connectionsMaxOf(nofile: number): number {
  return Math.max(connectionsLeast, Math.floor((nofile - ownFiles) / 2));
}

/** The store, the journal, the log, listeners, threads and their modules. */
const ownFiles = 96;
const connectionsLeast = 16;
