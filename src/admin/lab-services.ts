import type { LiveCallFacts } from "./services.ts";

/** The fault lab: calls that meet faults on purpose, on channels that serve nobody else. */
export interface LabServices {
  readonly scenarios: readonly LabScenarioFacts[];
  /** `no_mode`: the scenario is not one for such calls. `busy`: enough runs are under way. */
  start(order: LabOrderFacts): LabRunFacts | "no_scenario" | "no_mode" | "busy";
  find(id: string): LabRunFacts | null;
  /** Those under way and the last ones, the newest first. */
  list(): readonly LabRunFacts[];
  /** Ends a run and forgets it; null if there is none of this id. */
  remove(id: string): Promise<LabRunFacts | null>;
}

export interface LabScenarioFacts {
  readonly name: string;
  readonly title: string;
  readonly fault: string;
  readonly expected: string;
  /** How its calls may be made, the usual way first. */
  readonly modes: readonly LabModeName[];
  readonly channels: readonly { readonly name: string; readonly behaviour: string }[];
}

export type LabModeName = "streamed" | "whole";

export interface LabOrderFacts {
  readonly scenario: string;
  readonly mode: LabModeName | null;
  readonly calls: number;
  readonly rate: number;
}

export interface LabRunFacts {
  readonly id: string;
  readonly request: {
    readonly scenario: LabScenarioFacts;
    readonly mode: LabModeName;
    readonly calls: number;
    readonly rate: number;
  };
  readonly state: "running" | "ended" | "stopped";
  readonly startedMs: number;
  readonly calls: readonly LabCallFacts[];
  readonly channels: readonly LabChannelFacts[];
  /** What was not as promised; null while it runs, and if it was stopped. */
  readonly broken: readonly string[] | null;
}

export interface LabCallFacts {
  readonly call: LiveCallFacts | null;
  readonly client: {
    readonly sees: "answer" | "error" | "interruption" | "wrong";
    readonly status: number | null;
    readonly code: string | null;
    readonly words: number;
    readonly retryAfterS: number | null;
  } | null;
}

export interface LabChannelFacts {
  readonly name: string;
  readonly behaviour: string;
  readonly asked: number;
  readonly breaker: { readonly state: string; readonly cause: string; readonly forMs: number } | null;
}
