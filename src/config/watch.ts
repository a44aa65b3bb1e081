import { readlinkSync, statSync, watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import { basename, dirname, resolve } from "node:path";

export interface FileWatch {
  readonly close: () => void;
}

export interface WatchOptions {
  /** Editors and copies write in several steps; this much quiet means they are done. */
  readonly debounceMs?: number;
  /** As `stateOf` told when the file was last read: a change since then is one. */
  readonly since?: string | null;
  /** Some file systems report nothing: network shares, mounts of other machines. */
  readonly pollMs?: number;
}

/**
 * Calls back when a file was written, or replaced by another: by a rename, as editors do, or by a swapped symbolic
 * link anywhere on the way to it, as mounted ConfigMaps do. A file that is gone is waited for.
 */
export function watchFile(path: string, changed: () => void, options: WatchOptions = {}): FileWatch {
  const { debounceMs = 100, pollMs = 2000 } = options;
  let last = options.since ?? stateOf(path);
  let pending: ReturnType<typeof setTimeout> | null = null;
  let watchers = new Map<string, FSWatcher>();
  let places: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  let closed = false;

  const settle = (): void => {
    pending = null;
    if (closed) return;
    watchDirectories();
    const now = stateOf(path);
    if (now === null || now === last) return;
    last = now;
    changed();
  };
  const stir = (): void => {
    if (closed) return;
    if (pending !== null) clearTimeout(pending);
    pending = setTimeout(settle, debounceMs);
  };
  const watchDirectories = (): void => {
    places = placesOf(path);
    for (const [directory, watcher] of watchers) if (!places.has(directory)) watcher.close();
    watchers = new Map(
      [...places.keys()].flatMap((directory) => {
        // Others write here too, a log perhaps with every call: only what is on the way to the file concerns us.
        const noticed = (name: string | null): void => {
          if (name === null || places.get(directory)?.has(name)) stir();
        };
        const watcher = watchers.get(directory) ?? watchDirectory(directory, noticed, () => watchers.delete(directory));
        return watcher === null ? [] : [[directory, watcher] as const];
      }),
    );
  };

  watchDirectories();
  if (last !== stateOf(path)) stir();
  const poll = setInterval(() => {
    const now = stateOf(path);
    if (now !== null && now !== last && pending === null) stir();
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

function watchDirectory(directory: string, noticed: (name: string | null) => void, lost: () => void): FSWatcher | null {
  try {
    const watcher = watch(directory, { persistent: false }, (_event, name) => noticed(name));
    // The directory itself may be removed. Polling goes on, and the next change begins to watch it again.
    watcher.on("error", () => {
      watcher.close();
      lost();
    });
    return watcher;
  } catch {
    return null;
  }
}

/** More than any path has, so that a loop of links ends. */
const placesMax = 256;

/** By directory, the names whose change can lead to another file: the path's own and those of each link on its way. */
function placesOf(path: string): ReadonlyMap<string, ReadonlySet<string>> {
  const places = new Map<string, Set<string>>();
  const seen = new Set<string>();
  const add = (place: string): void => {
    const directory = dirname(place);
    places.set(directory, (places.get(directory) ?? new Set()).add(basename(place)));
  };
  const follow = (place: string): void => {
    const parent = dirname(place);
    if (parent === place || seen.has(place) || seen.size === placesMax) return;
    seen.add(place);
    follow(parent);
    const target = linkOf(place);
    if (target === null) return;
    const next = resolve(parent, target);
    add(place);
    add(next);
    follow(next);
  };
  const whole = resolve(path);
  add(whole);
  follow(whole);
  return places;
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

/** Tells one state of a file from another without reading it; null where there is no file. */
export function stateOf(path: string): string | null {
  try {
    const { dev, ino, size, mtimeNs } = statSync(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}`;
  } catch {
    return null;
  }
}

/**
 * Work that must not overlap itself, such as reading a file that changes: an older reading that ends later would undo the newer one.
 * Whoever asks while it is under way is served by one more round after it.
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
