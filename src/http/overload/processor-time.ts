import { parseProcStat, readProcFile, type MachineCpuTime } from "../../files/proc-stat.ts";

/**
 * How much of the processor this thread uses. On a virtual machine, time that the host took away is charged to whoever was
 * running: the share of it is read from the system, which counts it for all processors together.
 */
export class ProcessorTime {
  /** Of the whole machine, as of half a second ago or more, and as of the last look. */
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

  /** Notes how things stand, for a later question. Called now and then. */
  look(): void {
    this.before = this.last;
    this.last = parseProcStat(this.read());
  }

  /** Of the time that was wanted of the processors lately. Nothing where the system does not say. */
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

/** Of this thread alone: what others of the process do does not hold up its event loop. */
function usageOfThread(): NodeJS.CpuUsage {
  return process.threadCpuUsage();
}

/** To read it costs as much as a call. */
const lookMs = 50;
