import { readFileSync } from "node:fs";

/**
 * How much of the processor this thread uses. On a virtual machine, time that the host took away is charged to whoever was
 * running: the share of it is read from the system, which counts it for all processors together.
 */
export class ProcessorTime {
  /** Of the whole machine, as of half a second ago or more, and as of the last look. */
  private before: MachineTime | null;
  private last: MachineTime | null;
  private lookedMs: number;
  private share = 0;

  constructor(
    private readonly nowMs: () => number,
    private readonly read: () => string = readSystem,
    private readonly threadUsage: () => NodeJS.CpuUsage = usageOfThread,
  ) {
    this.last = machineTime(read());
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
    this.last = machineTime(this.read());
  }

  /** Of the time that was wanted of the processors lately. Nothing where the system does not say. */
  stolenShare(): number {
    const nowMs = this.nowMs();
    if (nowMs - this.lookedMs < lookMs) return this.share;
    this.lookedMs = nowMs;
    const now = machineTime(this.read());
    const { before } = this;
    if (now === null || before === null) return 0;
    const stolen = now.stolen - before.stolen;
    const wanted = stolen + now.busy - before.busy;
    this.share = wanted > 0 && stolen > 0 ? stolen / wanted : 0;
    return this.share;
  }
}

/** In ticks of the system, of all processors together. */
interface MachineTime {
  readonly busy: number;
  readonly stolen: number;
}

/** `cpu user nice system idle iowait irq softirq steal …` (proc(5)); null on a system without it. */
function machineTime(stat: string): MachineTime | null {
  const said = /^cpu +(\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+) (\d+)/.exec(stat);
  if (said === null) return null;
  const [user = 0, nice = 0, system = 0, irq = 0, softirq = 0, stolen = 0] = said.slice(1).map(Number);
  return { busy: user + nice + system + irq + softirq, stolen };
}

function readSystem(): string {
  try {
    return readFileSync("/proc/stat", "latin1");
  } catch {
    return "";
  }
}

/** Of this thread alone: what others of the process do does not hold up its event loop. */
function usageOfThread(): NodeJS.CpuUsage {
  return process.threadCpuUsage();
}

/** To read it costs as much as a call. */
const lookMs = 50;
