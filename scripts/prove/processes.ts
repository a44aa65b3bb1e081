import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../source-tree.ts";

/** Where everything that is run puts its temporary files, so that nothing of a run that was interrupted is left behind. */
export const scratch = mkdtempSync(join(tmpdir(), "sluice-prove-"));
// A PostgreSQL of the tests runs as another user.
chmodSync(scratch, 0o755);

/** How a program that was run has ended. */
export interface Ended {
  readonly code: number;
  /** The end of what it printed, without empty lines. */
  readonly lines: readonly string[];
  readonly seconds: number;
}

const linesMax = 400;
const graceMs = 5_000;
/** The groups of processes that are running. */
const groups = new Set<number>();
let isEnding = false;

/**
 * Runs a program in a process group of its own, so that all it starts can be ended with it, and gives each line that it prints to
 * `onLine`. It never resolves once everything is being ended, so that nothing else is begun.
 */
export async function run(command: readonly string[], onLine: (line: string) => void): Promise<Ended> {
  const beganMs = performance.now();
  const child = Bun.spawn([...command], {
    cwd: root,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    detached: true,
    env: { ...process.env, TMPDIR: scratch },
  });
  groups.add(child.pid);
  let lines: string[] = [];
  const hear = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
    for await (const line of linesOf(stream)) {
      if (line.trim() === "") continue;
      lines.push(line);
      if (lines.length > 2 * linesMax) lines = lines.slice(-linesMax);
      onLine(line);
    }
  };
  // A process that was left behind may hold the output open: what counts is the end of the program itself.
  const [code] = await Promise.all([child.exited, Promise.race([Promise.all([hear(child.stdout), hear(child.stderr)]), afterExit(child)])]);
  if (isEnding) await new Promise(() => {});
  await endGroup(child.pid);
  return { code, lines: lines.slice(-linesMax), seconds: (performance.now() - beganMs) / 1_000 };
}

async function afterExit(child: Bun.Subprocess): Promise<void> {
  await child.exited;
  await Bun.sleep(1_000);
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let unfinished = "";
  for await (const bytes of stream) {
    const lines = (unfinished + decoder.decode(bytes, { stream: true })).split("\n");
    unfinished = lines.pop() ?? "";
    yield* lines;
  }
  if (unfinished !== "") yield unfinished;
}

/** Ends everything that was started: asked first, then made to. Whoever calls it again does not wait any longer. */
export async function endAll(): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  await Promise.all([...groups].map(endGroup));
}

async function endGroup(group: number): Promise<void> {
  signal(group, "SIGTERM");
  const deadline = performance.now() + graceMs;
  while (signal(group, 0) && performance.now() < deadline) await Bun.sleep(50);
  signal(group, "SIGKILL");
  groups.delete(group);
}

process.on("exit", () => {
  for (const group of groups) signal(group, "SIGKILL");
  rmSync(scratch, { recursive: true, force: true });
});

/** Whether there was anybody in the group. */
function signal(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, name);
    return true;
  } catch {
    return false;
  }
}
