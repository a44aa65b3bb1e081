import { platform } from "node:os";
import { openDatabase } from "../../src/store/open.ts";
import { stopEverything } from "../processes.ts";
import { checkLedger } from "./ledger.ts";
import { KeyChurn } from "./key-churn.ts";
import { readSoakOptions, type SoakOptions } from "./options.ts";
import { findingsOf, type Soaked, table } from "./findings.ts";
import { startSubject, type Subject } from "./subject.ts";
import { Traffic } from "./traffic.ts";
import { ScriptedUpstream } from "./upstream.ts";
import { sampleOf, type Sample } from "./watch.ts";

const sampleEveryMs = 5_000;
const reloadEveryMs = 15_000;
const reportEveryMs = 10_000;
const burstEveryMs = 60_000;
/** It has as many rows at the end as at first: a report by key has one for every key there ever was, and takes as much more memory. */
const reportPath = "/usage?by=model";
/** Longer than a connection to an upstream is kept for the next call. */
const restMsMax = 40_000;

const options = readSoakOptions(process.argv.slice(2));
if ("refused" in options) leave(options.asked ? 0 : 64, options.refused);
if (platform() !== "linux") leave(69, "The soak needs Linux: it reads memory and open files from /proc.");
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));

try {
  const soaked = await soak(options);
  const findings = findingsOf(soaked);
  const broken = findings.some(({ holds }) => holds === false);
  if (options.json) console.log(JSON.stringify({ broken, findings, ...soaked }, null, 2));
  else console.log(table(findings, soaked));
  await stopEverything();
  process.exit(broken ? 1 : 0);
} catch (error) {
  await stopEverything();
  leave(1, `The soak was not completed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
}

async function soak(asked: SoakOptions): Promise<Soaked> {
  const upstream = await ScriptedUpstream.start();
  const subject = await startSubject(asked, upstream.ports);
  const churn = new KeyChurn(subject.admin, subject.origin);
  await churn.begin();
  const traffic = new Traffic(subject.origin, () => churn.keys, asked.seed);
  await traffic.rehearse();
  await subject.admin.get(reportPath);
  const startedMs = performance.now();
  const minute = (): number => (performance.now() - startedMs) / 60_000;
  const { running, temporaryFolder, admin } = subject;
  const sample = (): Promise<Sample> => sampleOf({ pid: running.pid, temporaryFolder, admin }, minute(), traffic.running);
  const before = await sample();
  const samples: Sample[] = [];
  const problems: string[] = [];
  let reloads = 0;

  const over = AbortSignal.timeout(asked.minutes * 60_000);
  const repeating = (everyMs: number, what: string, work: () => Promise<unknown>): Promise<void> =>
    repeated(everyMs, over, () => work().catch((error: unknown) => void problems.push(`${what}: ${String(error)}`)));
  await Promise.all([
    traffic.run(asked.rate, Math.min(burstEveryMs, (asked.minutes * 60_000) / 5), over),
    repeating(1_000, "keys", () => churn.step(performance.now())),
    repeating(Math.min(reloadEveryMs, (asked.minutes * 60_000) / 5), "a reload", async () => {
      await subject.reload();
      reloads += 1;
    }),
    repeating(reportEveryMs, "a report", () => subject.admin.get(reportPath)),
    repeating(sampleEveryMs, "a sample", async () => {
      const taken = await sample();
      samples.push(taken);
      console.error(progress(taken, asked, traffic, subject));
    }),
  ]);
  const rest = await atRest(sample, before, () => traffic.running === 0 && upstream.open === 0);
  problems.push(...churn.problems, ...subject.errors);

  const database = await openDatabase({ store: asked.store, dataDir: subject.dataDir });
  await drained(subject);
  const ledger = await checkLedger({ database, admin: subject.admin, outcomes: traffic.outcomes, served: upstream.served, churn });
  await database.close();
  await subject.running.stop();
  upstream.stop();
  const outcomes = [...traffic.outcomes.values()];
  return {
    options: asked,
    before,
    samples,
    rest,
    calls: outcomes.length,
    byKind: Object.fromEntries([...Map.groupBy(outcomes, ({ kind }) => kind)].map(([kind, all]) => [kind, all.length])),
    refused: Object.fromEntries([...Map.groupBy(outcomes, ({ refused }) => refused ?? "")].map(([code, all]) => [code, all.length])),
    unexplained: outcomes.flatMap(({ problem }) => problem ?? []),
    reloads,
    keys: churn.done,
    ledger,
    problems,
  };
}

async function repeated(everyMs: number, until: AbortSignal, work: () => Promise<unknown>): Promise<void> {
  const ended = new Promise<void>((resolve) => until.addEventListener("abort", () => resolve(), { once: true }));
  while (!until.aborted) {
    await Promise.race([Bun.sleep(everyMs), ended]);
    if (!until.aborted) await work();
  }
}

async function atRest(sample: () => Promise<Sample>, before: Sample, isQuiet: () => boolean): Promise<Sample> {
  const deadlineMs = performance.now() + restMsMax;
  for (;;) {
    await Bun.sleep(1_000);
    const taken = await sample();
    const isAsBefore =
      taken.openFiles <= before.openFiles && taken.threads <= before.threads && taken.temporaryFiles <= before.temporaryFiles;
    if (isQuiet() && isAsBefore) return taken;
    if (performance.now() > deadlineMs) return taken;
  }
}

/** Receipts reach the store a moment after their calls. */
async function drained({ admin }: Subject): Promise<void> {
  const deadlineMs = performance.now() + restMsMax;
  const isDone = async (): Promise<boolean> =>
    (await admin.metric("sluice_in_flight_requests")) === 0 && (await admin.metric("sluice_journal_waiting_receipts")) === 0;
  while (performance.now() < deadlineMs && !(await isDone())) await Bun.sleep(200);
}

function progress(taken: Sample, { minutes }: SoakOptions, traffic: Traffic, subject: Subject): string {
  const clock = (at: number): string => `${Math.floor(at)}:${String(Math.floor((at % 1) * 60)).padStart(2, "0")}`;
  const wrong = [...traffic.outcomes.values()].filter(({ problem }) => problem !== null).length + subject.errors.length;
  return (
    `${clock(taken.minute)} of ${clock(minutes)}  ${traffic.sent} calls, ${traffic.running} running, ${wrong} wrong  ` +
    `memory ${taken.rssMegabytes.toFixed(1)} MB, heap ${taken.heapMegabytes.toFixed(1)} MB, ` +
    `${taken.openFiles} files, ${taken.threads} threads, ${taken.temporaryFiles} temporary`
  );
}

function leave(code: number, message: string): never {
  console.error(message);
  process.exit(code);
}
