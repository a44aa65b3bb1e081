/** What a parent tells its workers. `stop` waits for load balancers and calls, `hurry` for calls only, `end` for nothing. */
export type WorkerOrder = "stop" | "hurry" | "end" | "reload";

/** What a worker tells its parent once it takes calls on this port. */
export interface WorkerReady {
  readonly port: number;
  /** The name of its process in the store, under which it holds concurrency slots and money. */
  readonly member?: string;
}

/** A parent tells one of its workers that another one has ended, and what its name in the store was. */
export interface WorkerEnded {
  readonly workerEnded: string;
}

/** A worker tells its parent that nothing is held any more for one that has ended. */
export interface WorkerFreed {
  readonly workerFreed: string;
}

/** What a worker sends regularly while its event loop runs. */
export type WorkerAlive = "alive";

/** Often enough to notice soon when a worker hangs. */
export const aliveEveryMs = 1_000;

export function isWorkerAlive(message: unknown): message is WorkerAlive {
  return message === "alive";
}

export function isWorkerOrder(message: unknown): message is WorkerOrder {
  return message === "stop" || message === "hurry" || message === "end" || message === "reload";
}

export function isWorkerReady(message: unknown): message is WorkerReady {
  return typeof message === "object" && message !== null && Number.isInteger((message as Partial<WorkerReady>).port);
}

/** What workers report of themselves: all that they have counted, the calls since the last such report, or the budgets that refused calls. */
export type ReportTopic = "metrics" | "live" | "refusals";

/** A worker asks its parent what the others report of themselves. The number tells its questions apart. */
export interface ReportsWanted {
  readonly reportsWanted: number;
  readonly about: ReportTopic;
}

/** The parent asks a worker for its report. */
export interface ReportWanted {
  readonly reportWanted: number;
  readonly about: ReportTopic;
}

export interface WorkerReport {
  readonly reportOf: number;
  readonly report: string;
}

/** The parent answers `ReportsWanted`: what the other workers said, as far as they answered in time. */
export interface WorkerReports {
  readonly reportsFor: number;
  readonly reports: readonly NumberedReport[];
}

export interface NumberedReport {
  readonly worker: number;
  readonly report: string;
}

export function isReportsWanted(message: unknown): message is ReportsWanted {
  return hasNumber(message, "reportsWanted");
}

export function isReportWanted(message: unknown): message is ReportWanted {
  return hasNumber(message, "reportWanted");
}

export function isWorkerReport(message: unknown): message is WorkerReport {
  return hasNumber(message, "reportOf");
}

export function isWorkerReports(message: unknown): message is WorkerReports {
  return hasNumber(message, "reportsFor");
}

export function isWorkerEnded(message: unknown): message is WorkerEnded {
  return hasText(message, "workerEnded");
}

export function isWorkerFreed(message: unknown): message is WorkerFreed {
  return hasText(message, "workerFreed");
}

function hasText(message: unknown, name: string): boolean {
  return typeof message === "object" && message !== null && typeof (message as Readonly<Record<string, unknown>>)[name] === "string";
}

function hasNumber(message: unknown, name: string): boolean {
  return typeof message === "object" && message !== null && Number.isInteger((message as Readonly<Record<string, unknown>>)[name]);
}
