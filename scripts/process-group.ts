export interface GroupOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** After this time everything is killed. */
  readonly timeoutMs: number;
  /** Whether the work is done, so that whatever still holds the output open was left over, and is killed after a moment. */
  readonly isOver: () => boolean;
  readonly onOutput: (bytes: Uint8Array) => void;
  /** How long what is left over may take to end by itself. */
  readonly leftOverMs?: number;
}

export interface ProcessGroup {
  /** Sends a signal to the command and to everything it has started. */
  readonly kill: (signal: NodeJS.Signals) => void;
  /** Resolves when the command has ended and its output is closed. */
  readonly ended: Promise<GroupEnd>;
}

export interface GroupEnd {
  /** Why it was killed; null if it ended by itself. */
  readonly killed: "too long" | "left over" | null;
  readonly cpuSeconds: number;
}

/**
 * Runs a command in a process group of its own. To kill the command alone is not enough: what it has started would go on, and keep its
 * output open, so that whoever reads that would wait for as long.
 */
export function startGroup(
  command: readonly string[],
  { env, timeoutMs, isOver, onOutput, leftOverMs = 10_000 }: GroupOptions,
): ProcessGroup {
  const child = Bun.spawn([...command], { env: { ...env }, stdin: "ignore", stdout: "pipe", stderr: "inherit", detached: true });
  const kill = (signal: NodeJS.Signals): void => {
    try {
      process.kill(-child.pid, signal);
    } catch {
      // Everything has ended by itself.
    }
  };
  let killed: GroupEnd["killed"] = null;
  const end = (why: GroupEnd["killed"]): void => {
    killed ??= why;
    kill("SIGKILL");
  };
  const limit = setTimeout(() => end("too long"), timeoutMs);
  let overMs: number | null = null;
  const looking = setInterval(
    () => {
      if (!isOver()) return;
      overMs ??= performance.now();
      if (performance.now() - overMs >= leftOverMs) end("left over");
    },
    Math.min(1_000, leftOverMs),
  );
  const read = async (): Promise<GroupEnd> => {
    try {
      for await (const bytes of child.stdout) onOutput(bytes);
      await child.exited;
    } finally {
      clearTimeout(limit);
      clearInterval(looking);
    }
    return { killed, cpuSeconds: Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6 };
  };
  return { kill, ended: read() };
}
