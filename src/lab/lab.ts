import { LabRun, type LabRunState } from "./lab-run.ts";
import type { PrivateHost } from "./private-gateway.ts";
import { labScenario, labScenarios, type LabMode } from "./scenarios.ts";

export interface LabOrder {
  /** The name of a scenario. */
  readonly scenario: string;
  /** Null: the usual one of the scenario. */
  readonly mode: LabMode | null;
  readonly calls: number;
  readonly rate: number;
}

/** The runs of the fault lab: a few at a time, and the last ones after they have ended. Nothing of it exists while nobody uses it. */
export class Lab {
  readonly scenarios = labScenarios;
  /** Oldest first. */
  private readonly runs = new Map<string, LabRun>();

  constructor(private readonly host: PrivateHost) {}

  /** `busy`: enough runs are under way. */
  start({ scenario: name, mode, calls, rate }: LabOrder): LabRunState | "no_scenario" | "no_mode" | "busy" {
    const scenario = labScenario(name);
    if (scenario === null) return "no_scenario";
    if (mode !== null && !scenario.modes.includes(mode)) return "no_mode";
    const running = [...this.runs.values()].filter(({ isRunning }) => isRunning);
    if (running.length >= runningMax) return "busy";
    const request = { scenario, mode: mode ?? scenario.modes[0] ?? "whole", calls, rate };
    const run = new LabRun(`lab-${Buffer.from(this.host.randomBytes(6)).toString("hex")}`, request, this.host);
    this.runs.set(run.id, run);
    for (const [id, { isRunning }] of this.runs) {
      if (this.runs.size <= keptMax) break;
      if (!isRunning) this.runs.delete(id);
    }
    return run.state;
  }

  find(id: string): LabRunState | null {
    return this.runs.get(id)?.state ?? null;
  }

  /** Newest first. */
  list(): readonly LabRunState[] {
    return [...this.runs.values()].map(({ state }) => state).toReversed();
  }

  /** Ends a run that is under way, and forgets it. Null if there is none of this name. */
  async remove(id: string): Promise<LabRunState | null> {
    const run = this.runs.get(id);
    if (run === undefined) return null;
    run.stop();
    await run.finished;
    this.runs.delete(id);
    return run.state;
  }

  stop(): void {
    for (const run of this.runs.values()) run.stop();
  }
}

const runningMax = 4;
const keptMax = 16;
