import { readlinkSync, statSync, watch, type FSWatcher } from "node:fs";
import { basename, dirname, resolve } from "node:path";

export interface FileWatch {
  readonly close: () => void;
}

export interface WatchOptions {
  /** Editors and copies write in several steps. After this long without a change they are done. */
  readonly debounceMs?: number;
  /** The result of `stateOf` when the file was last read, so that a change since then is noticed. */
  readonly since?: string | null;
  /** Some file systems, such as network shares, report no changes. */
  readonly pollMs?: number;
}

/**
 * Calls back when a file was written or replaced: by a rename, as editors do, or by a swapped symbolic link anywhere on its path, as
 * Kubernetes does with mounted ConfigMaps. If the file is gone, it waits until there is one again.
 */
export function watchFile(path: string, changed: () => void, options: WatchOptions = {}): FileWatch {
  const { debounceMs = 100, pollMs = 2000 } = options;
  let last = options.since ?? stateOf(path);
  let pending: ReturnType<typeof setTimeout> | null = null;
  let watchers = new Map<string, FSWatcher>();
  let names: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  let closed = false;

  const checkNow = (): void => {
    pending = null;
    if (closed) return;
    watchDirectories();
    const now = stateOf(path);
    if (now === null || now === last) return;
    last = now;
    changed();
  };
  const scheduleCheck = (): void => {
    if (closed) return;
    if (pending !== null) clearTimeout(pending);
    pending = setTimeout(checkNow, debounceMs);
  };
  const watchDirectories = (): void => {
    names = watchedNames(path);
    for (const [directory, watcher] of watchers) if (!names.has(directory)) watcher.close();
    watchers = new Map(
      [...names.keys()].flatMap((directory) => {
        // Others write to this directory too, perhaps a log with every call; only names on the path to the file matter.
        const onEvent = (name: string | null): void => {
          if (name === null || names.get(directory)?.has(name)) scheduleCheck();
        };
        const watcher = watchers.get(directory) ?? watchDirectory(directory, onEvent, () => watchers.delete(directory));
        return watcher === null ? [] : [[directory, watcher] as const];
      }),
    );
  };

  watchDirectories();
  if (last !== stateOf(path)) scheduleCheck();
  const poll = setInterval(() => {
    const now = stateOf(path);
    if (now !== null && now !== last && pending === null) scheduleCheck();
  }, pollMs);
  poll.unref();
  return {
    close: () => {
      closed = true;
      if (pending !== null) clearTimeout(pending);
      clearInterval(poll);
      for (const watcher of watchers.values()) watcher.close();
    },
  };
}

function watchDirectory(directory: string, onEvent: (name: string | null) => void, lost: () => void): FSWatcher | null {
  try {
    const watcher = watch(directory, { persistent: false }, (_event, name) => onEvent(name));
    // The directory itself may be removed. Polling continues, and the next change starts to watch it again.
    watcher.on("error", () => {
      watcher.close();
      lost();
    });
    return watcher;
  } catch {
    return null;
  }
}

/** More links than any path has, so that a loop of links ends. */
const linksMax = 256;

/** By directory, the names whose change can lead to another file: the path's own, and those of each symbolic link on it. */
function watchedNames(path: string): ReadonlyMap<string, ReadonlySet<string>> {
  const names = new Map<string, Set<string>>();
  const seen = new Set<string>();
  const add = (link: string): void => {
    const directory = dirname(link);
    names.set(directory, (names.get(directory) ?? new Set()).add(basename(link)));
  };
  const follow = (link: string): void => {
    const parent = dirname(link);
    if (parent === link || seen.has(link) || seen.size === linksMax) return;
    seen.add(link);
    follow(parent);
    const target = linkOf(link);
    if (target === null) return;
    const next = resolve(parent, target);
    add(link);
    add(next);
    follow(next);
  };
  const whole = resolve(path);
  add(whole);
  follow(whole);
  return names;
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** Identifies the state of a file without reading it; null if there is no file. */
export function stateOf(path: string): string | null {
  try {
    const { dev, ino, size, mtimeNs } = statSync(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}`;
  } catch {
    return null;
  }
}

/**
 * Makes sure that work does not overlap itself, such as reading a file that changes: an older run that ends later would undo the newer
 * one. Requests that come during a run cause one more run after it.
 */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running = false;
  let again = false;
  const round = async (): Promise<void> => {
    running = true;
    again = false;
    try {
      await work();
    } finally {
      running = false;
      if (again) void round();
    }
  };
  return async () => {
    if (running) again = true;
    else await round();
  };
}
