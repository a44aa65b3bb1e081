const methods = ["debug", "error", "info", "log", "warn"] as const;
const events = ["uncaughtException", "unhandledRejection"] as const;

/**
 * Runs a foreign codec without its voice: several write to the console what they also return. The compiled ones take hold of
 * the console's functions once, when their module is made, so making it in here silences it for good. Only the synchronous
 * part of `run` is covered, so that nothing of ours is ever muted.
 */
export function silenced<T>(run: () => T): T {
  const spoken = methods.map((method) => [method, console[method]] as const);
  for (const method of methods) console[method] = () => {};
  try {
    return run();
  } finally {
    for (const [method, speak] of spoken) console[method] = speak;
  }
}

/** Makes a module quietly, and takes away the process-wide handlers that it leaves behind: ours alone decide what ends us. */
export function silencedWithoutHandlers<T>(make: () => T): T {
  const before = events.map((event) => new Set<unknown>(process.listeners(event)));
  try {
    return silenced(make);
  } finally {
    events.forEach((event, index) => {
      for (const listener of process.listeners(event)) {
        if (!before[index]!.has(listener)) process.removeListener(event, listener);
      }
    });
  }
}
