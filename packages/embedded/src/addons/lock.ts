import { open, readFile, rm } from "node:fs/promises";
import { problem, type AddProblem } from "./progress.ts";

/** Locks the staging folder: two processes that write the same files would damage each other's work. */
export async function acquireLock(path: string): Promise<{ release(): Promise<void> } | AddProblem> {
  for (let tries = 0; tries < 2; tries++) {
    try {
      const file = await open(path, "wx");
      await file.writeFile(String(process.pid));
      await file.close();
      return { release: () => rm(path, { force: true }) };
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
    const holder = Number(await readFile(path, "utf8").catch(() => ""));
    if (isAlive(holder)) {
      return problem("busy", `Process ${holder} is already adding it. If that is not the case, delete ${path}.`);
    }
    // The process that held the lock was killed.
    await rm(path, { force: true });
  }
  return problem("busy", "Another process is already adding it.");
}

function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
