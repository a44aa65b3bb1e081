import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Admin } from "./admin.ts";

/** What a process holds at one moment. */
export interface Sample {
  readonly minute: number;
  readonly rssMegabytes: number;
  readonly heapMegabytes: number;
  readonly openFiles: number;
  readonly threads: number;
  readonly temporaryFiles: number;
}

export async function sampleOf(pid: number, minute: number, temporaryFolder: string, admin: Admin): Promise<Sample> {
  const heapBytes = await admin.metric("sluice_heap_bytes");
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
  return {
    minute,
    rssMegabytes: (Number(kilobytes) * 1024) / 1e6,
    heapMegabytes: heapBytes / 1e6,
    openFiles: readdirSync(`/proc/${pid}/fd`).length,
    threads: readdirSync(`/proc/${pid}/task`).length,
    temporaryFiles: temporaryFilesOf(pid, temporaryFolder),
  };
}

/** Files with a name, and those that have none any more and are still open. */
function temporaryFilesOf(pid: number, folder: string): number {
  const named = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length;
  const unnamed = readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    const target = linkOf(`/proc/${pid}/fd/${fd}`);
    return target.startsWith(folder) && target.endsWith("(deleted)");
  }).length;
  return named + unnamed;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ""; // It was closed meanwhile.
  }
}
