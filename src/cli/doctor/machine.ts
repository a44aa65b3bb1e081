import { connectionsMaxOf } from "../process/open-files.ts";
import { doubtful, failed, fine, type Diagnosis } from "./diagnosis.ts";

/** What is known of this machine and this process. */
export interface MachineReport {
  readonly bun: string;
  /** The version that this release is tested with. */
  readonly bunWanted: string;
  readonly openFiles: number;
  /** Of the machine, or of the container. */
  readonly memoryBytes: number;
  /** Null if the directory for temporary files works. */
  readonly temporaryProblem: string | null;
  readonly dataDir: DataDirReport;
  /** Null for the executable file, which has neither models nor codecs. */
  readonly local: LocalReport | null;
}

export interface DataDirReport {
  readonly path: string;
  /** Why it cannot be written to; null if it can. */
  readonly problem: string | null;
  /** Null if it cannot be told. */
  readonly freeBytes: number | null;
}

/** What runs models and codecs on this machine. */
export interface LocalReport {
  readonly models: readonly string[];
  readonly missingCodecs: readonly string[];
  /** Why ONNX Runtime cannot be loaded; null if it can. */
  readonly onnxProblem: string | null;
}

export function machineDiagnoses(report: MachineReport): readonly Diagnosis[] {
  return [
    ofRuntime(report),
    ofOpenFiles(report),
    ofMemory(report),
    ofTemporary(report),
    ...ofDataDir(report.dataDir),
    ...ofLocal(report.local),
  ];
}

function ofRuntime({ bun, bunWanted }: MachineReport): Diagnosis {
  if (bun === bunWanted) return fine("runtime", `Bun ${bun}`);
  return doubtful(
    "runtime",
    `Bun ${bun}; this release is tested with ${bunWanted}`,
    "Start it with bin/sluice, which brings the right one.",
  );
}

function ofOpenFiles({ openFiles }: MachineReport): Diagnosis {
  const message = `${openFiles} open files, enough for ${connectionsMaxOf(openFiles)} clients at the same time`;
  const fix = "Raise the limit before the start: ulimit -n 65536, or LimitNOFILE=65536 in the unit of systemd.";
  if (openFiles < openFilesLeast) return failed("open_files", message, fix);
  return openFiles < openFilesWanted ? doubtful("open_files", message, fix) : fine("open_files", message);
}

const openFilesLeast = 256;
const openFilesWanted = 4096;

function ofMemory({ memoryBytes }: MachineReport): Diagnosis {
  const message = `${shownSize(memoryBytes)} of memory`;
  const fix = "Give the machine or the container more (memory.max, --memory, resources.limits.memory); local models need 1 GiB more.";
  if (memoryBytes < 128 * mebi) return failed("memory", message, fix);
  return memoryBytes < 512 * mebi ? doubtful("memory", message, fix) : fine("memory", message);
}

function ofTemporary({ temporaryProblem }: MachineReport): Diagnosis {
  if (temporaryProblem === null) return fine("temporary", "The directory for temporary files can be written to");
  const [message = "", ...fix] = temporaryProblem.split("\n");
  return failed("temporary", message, fix.join("\n").trim());
}

function ofDataDir({ path, problem, freeBytes }: DataDirReport): readonly Diagnosis[] {
  return [
    problem === null
      ? fine("data_dir", `${path} can be written to`)
      : failed(
          "data_dir",
          `${path} cannot be written to (${problem})`,
          "Let the user that runs the gateway own it, or set data_dir to another folder.",
        ),
    ...(freeBytes === null ? [] : [ofSpace(path, freeBytes)]),
  ];
}

function ofSpace(path: string, freeBytes: number): Diagnosis {
  const message = `${shownSize(freeBytes)} free for ${path}`;
  const fix = "Free some space, set data_dir to another disk, or keep receipts for a shorter time (receipts.keep).";
  if (freeBytes < 64 * mebi) return failed("disk_space", message, fix);
  return freeBytes < 1024 * mebi ? doubtful("disk_space", message, fix) : fine("disk_space", message);
}

function ofLocal(report: LocalReport | null): readonly Diagnosis[] {
  if (report === null) return [fine("local_models", "The executable file has neither models nor codecs: those of upstreams are used")];
  const { models, missingCodecs, onnxProblem } = report;
  const install = "Install it again with optional packages: npm install --include=optional";
  return [
    models.length === 0
      ? doubtful("local_models", "No model can run on this machine", `${install}; or ignore this, if you need none.`)
      : fine("local_models", `These can run on this machine: ${models.join(", ")}`),
    missingCodecs.length === 0
      ? fine("codecs", "All audio codecs are installed")
      : doubtful("codecs", `Audio codecs are missing: ${missingCodecs.join(", ")}`, `${install}; audio is not converted without them.`),
    onnxProblem === null
      ? fine("onnx", "ONNX Runtime can be loaded")
      : doubtful(
          "onnx",
          `ONNX Runtime cannot be loaded: ${onnxProblem}`,
          `${install}; it needs glibc. Without it, recordings are transcribed by other channels only.`,
        ),
  ];
}

function shownSize(bytes: number): string {
  return bytes >= 1024 * mebi ? `${(bytes / (1024 * mebi)).toFixed(1)} GiB` : `${Math.floor(bytes / mebi)} MiB`;
}

const mebi = 1024 * 1024;
