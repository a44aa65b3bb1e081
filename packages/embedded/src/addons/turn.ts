import { open, readFile, rm } from "node:fs/promises";
import { problem, type AddProblem } from "./problem.ts";

/** Two that write the same files would spoil each other's work, so whoever is second is told. */
export async function takeTurn(path: string): Promise<{ end(): Promise<void> } | AddProblem> {
  for (let tries = 0; tries < 2; tries++) {
    try {
      const file = await open(path, "wx");
      await file.writeFile(String(process.pid));
      await file.close();
      return { end: () => rm(path, { force: true }) };
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
    const holder = Number(await readFile(path, "utf8").catch(() => ""));
    if (isAlive(holder)) {
      return problem("busy", `It is being added already, by process ${holder}. If that is not so, delete ${path}.`);
    }
    // It was left behind by one that was killed.
    await rm(path, { force: true });
  }
  return problem("busy", "It is being added already.");
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
