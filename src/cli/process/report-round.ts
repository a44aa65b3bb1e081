import type { NumberedReport } from "./worker-messages.ts";

/** Whom a parent asks for a report. */
export interface ReportingWorker {
  readonly number: number;
  /** Returns whether the worker could be told. */
  ask(round: number): boolean;
}

/**
 * Collects one report of each worker for one that asked, such as their metrics. A worker that does not answer in time is left out: whoever
 * asks must not wait for a worker that hangs.
 */
export class ReportRounds {
  private readonly rounds = new Map<number, ReportRound>();
  private last = 0;

  constructor(private readonly withinMs = reportMs) {}

  begin(workers: readonly ReportingWorker[], done: (reports: readonly NumberedReport[]) => void): void {
    if (this.rounds.size >= roundsMax) return done([]);
    const id = ++this.last;
    const end = (): void => {
      clearTimeout(round.timer);
      this.rounds.delete(id);
      done(round.reports);
    };
    const round: ReportRound = { missing: new Set(), reports: [], end, timer: setTimeout(end, this.withinMs) };
    this.rounds.set(id, round);
    for (const worker of workers) if (worker.ask(id)) round.missing.add(worker.number);
    if (round.missing.size === 0) end();
  }

  reported(id: number, worker: number, report: string): void {
    const round = this.rounds.get(id);
    if (round === undefined || !round.missing.delete(worker)) return;
    round.reports.push({ worker, report });
    if (round.missing.size === 0) round.end();
  }
}

interface ReportRound {
  readonly missing: Set<number>;
  readonly reports: NumberedReport[];
  readonly end: () => void;
  readonly timer: ReturnType<typeof setTimeout>;
}

const reportMs = 1_000;
const roundsMax = 16;
