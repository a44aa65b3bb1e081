import {
  aliveEveryMs,
  isReportWanted,
  isWorkerEnded,
  isWorkerOrder,
  isWorkerReports,
  type NumberedReport,
  type ReportsWanted,
  type ReportTopic,
  type WorkerAlive,
  type WorkerFreed,
  type WorkerOrder,
  type WorkerReady,
  type WorkerReport,
} from "./worker-messages.ts";

/** The parent process, as a worker sees it. */
export interface Parent {
  /** Reports that this process takes calls, and from then on regularly that its event loop still runs. */
  ready(port: number, member: string): void;
  /** Receives the orders so far, and later ones. If the parent is gone, the worker shuts down. */
  onOrder(handle: (order: WorkerOrder) => void): void;
  /** What the other workers report, as far as they answer in time. */
  otherReports(about: ReportTopic): Promise<readonly NumberedReport[]>;
  /** Makes the report of this worker when another one asks for it. */
  onReportWanted(about: ReportTopic, make: () => string): void;
  /** Frees what another worker held, which has ended. The parent is told when that is done; where it fails, it asks again. */
  onWorkerEnded(free: (member: string) => Promise<void>): void;
}

/** Null if this process is not a worker. Orders are kept until a handler is set. */
export function parentOf(own: NodeJS.Process): Parent | null {
  if (own.send === undefined) return null;
  const early: WorkerOrder[] = [];
  let handle = (order: WorkerOrder): void => {
    early.push(order);
  };
  const tell = (message: WorkerReady | WorkerAlive | WorkerFreed | ReportsWanted | WorkerReport): void => {
    if (own.connected) own.send?.(message);
  };
  const questions = new Map<number, (reports: readonly NumberedReport[]) => void>();
  let lastQuestion = 0;
  const makers = new Map<ReportTopic, () => string>();
  let free: ((member: string) => Promise<void>) | null = null;
  const freeEnded = (member: string): void =>
    void free?.(member).then(
      () => tell({ workerFreed: member }),
      () => {},
    );
  own.on("message", (message) => {
    if (isWorkerOrder(message)) handle(message);
    else if (isWorkerEnded(message)) freeEnded(message.workerEnded);
    else if (isReportWanted(message)) {
      const make = makers.get(message.about);
      if (make !== undefined) tell({ reportOf: message.reportWanted, report: make() });
    } else if (isWorkerReports(message)) questions.get(message.reportsFor)?.(message.reports);
  });
  own.on("disconnect", () => handle("hurry"));
  return {
    ready: (port, member) => {
      tell({ port, member });
      setInterval(() => tell("alive"), aliveEveryMs).unref();
    },
    onOrder: (then) => {
      handle = then;
      for (const order of early.splice(0)) then(order);
    },
    otherReports: (about) =>
      new Promise((resolve) => {
        const question = ++lastQuestion;
        const answered = (reports: readonly NumberedReport[]): void => {
          clearTimeout(timer);
          questions.delete(question);
          resolve(reports);
        };
        const timer = setTimeout(() => answered([]), answerMs);
        questions.set(question, answered);
        tell({ reportsWanted: question, about });
      }),
    onReportWanted: (about, make) => {
      makers.set(about, make);
    },
    onWorkerEnded: (then) => {
      free = then;
    },
  };
}

/** Longer than the parent waits for the others. */
const answerMs = 2_000;
