import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Admin } from "./admin.ts";
import { residentPartsOf, type ResidentParts } from "./memory.ts";

/** What a process holds at one moment. */
export interface Sample {
  readonly minute: number;
  readonly rssMegabytes: number;
  readonly heapMegabytes: number;
  /** Memory outside of the heap that its objects keep. */
  readonly externalMegabytes: number;
  readonly resident: ResidentParts;
  /** Calls at that moment. */
  readonly running: number;
  readonly openFiles: number;
  readonly threads: number;
  readonly temporaryFiles: number;
}

export interface Watched {
  readonly pid: number;
  readonly temporaryFolder: string;
  readonly admin: Admin;
}

export async function sampleOf({ pid, temporaryFolder, admin }: Watched, minute: number, running: number): Promise<Sample> {
  const [heapBytes = Number.NaN, externalBytes = Number.NaN] = await admin.metrics("sluice_heap_bytes", "sluice_external_bytes");
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
  return {
    minute,
    rssMegabytes: (Number(kilobytes) * 1024) / 1e6,
    heapMegabytes: heapBytes / 1e6,
    externalMegabytes: externalBytes / 1e6,
    resident: residentPartsOf(readFileSync(`/proc/${pid}/smaps`, "latin1")),
    running,
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
