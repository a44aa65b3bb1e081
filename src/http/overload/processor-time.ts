import { parseProcStat, readProcFile, type MachineCpuTime } from "../../files/proc-stat.ts";

/**
 * The CPU time of this thread. On a virtual machine, time that the host took away is charged to the running thread: its share is
 * read from the system, which counts it for all processors together.
 */
export class ProcessorTime {
  /** The CPU time of the machine half a second ago or more, and at the last look. */
  private before: MachineCpuTime | null;
  private last: MachineCpuTime | null;
  private lookedMs: number;
  private share = 0;

  constructor(
    private readonly nowMs: () => number,
    private readonly read: () => string = readProcStat,
    private readonly threadUsage: () => NodeJS.CpuUsage = usageOfThread,
  ) {
    this.last = parseProcStat(read());
    this.before = this.last;
    this.lookedMs = nowMs();
  }

  usedMs(): number {
    const { user, system } = this.threadUsage();
    return (user + system) / 1_000;
  }

  /** Records the current values for later comparison. Called every half second. */
  look(): void {
    this.before = this.last;
    this.last = parseProcStat(this.read());
  }

  /** The stolen share of the CPU time that was recently wanted. 0 if the system does not tell. */
  stolenShare(): number {
    const nowMs = this.nowMs();
    if (nowMs - this.lookedMs < lookMs) return this.share;
    this.lookedMs = nowMs;
    const now = parseProcStat(this.read());
    const { before } = this;
    if (now === null || before === null) return 0;
    const stolen = now.stolenTicks - before.stolenTicks;
    const wanted = stolen + now.busyTicks - before.busyTicks;
    this.share = wanted > 0 && stolen > 0 ? stolen / wanted : 0;
    return this.share;
  }
}

function readProcStat(): string {
  return readProcFile("/proc/stat");
}

/** Of this thread alone: other threads do not delay its event loop. */
function usageOfThread(): NodeJS.CpuUsage {
  return process.threadCpuUsage();
}

/** Reading /proc/stat costs as much as a call. */
const lookMs = 50;
