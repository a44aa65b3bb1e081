import { ask } from "./ask.ts";
import { cpuMicroseconds, mainThreadMicroseconds, residentBytes, threadMicroseconds } from "./cpu.ts";
import type { Gateway, GatewaySettings } from "./gateway.ts";
import { openLoop } from "./load.ts";
import type { Options } from "./options.ts";
import type { Row, Table } from "./report.ts";
import type { Target, TargetName, Upstream } from "./target.ts";

/** What every scenario is given. A scenario measures and judges; starting, stopping and printing are done for it. */
export interface Bench {
  readonly options: Options;
  readonly upstream: Upstream;
  /** The address of a collector that takes every trace and metric, and keeps none. */
  readonly collector: string;
  /** The targets that run for the whole bench; those that could not be started are not here. */
  readonly targets: readonly Target[];
  /** A process that nothing has been asked of yet, for measurements of memory. Null where the target could not be started. */
  fresh(name: "bare" | "floor" | "gateway"): Promise<Target | null>;
  gatewayWith(settings: GatewaySettings): Promise<Gateway | null>;
  /** Shown below the bars, for what is not measured target by target. */
  show(table: Table): void;
  remark(text: string): void;
}

export type Scenario = (bench: Bench) => Promise<readonly Row[]>;

/** The values of one measure, target by target, one per round. */
export type Rounds = Readonly<Partial<Record<TargetName, readonly number[]>>>;

export interface Plan<Measure extends string> {
  readonly title: string;
  readonly targets: readonly TargetName[];
  readonly rounds: number;
  /** In how many of the rounds nginx and the peer take part, where they only give the numbers their place. */
  readonly referenceRounds?: number;
  readonly measures: readonly Measure[];
}

/** Gives each target its turn, round after round, so that what disturbs the machine disturbs all of them alike. */
export async function interleaved<Measure extends string>(
  bench: Bench,
  plan: Plan<Measure>,
  measure: (target: Target) => Promise<Readonly<Record<Measure, number>>>,
): Promise<Readonly<Record<Measure, Rounds>>> {
  const results = Object.fromEntries(plan.measures.map((name) => [name, {}])) as Record<Measure, Partial<Record<TargetName, number[]>>>;
  const failed = new Set<TargetName>();
  for (let round = 1; round <= plan.rounds; round += 1) {
    console.error(`${plan.title}, round ${round} of ${plan.rounds}`);
    for (const target of bench.targets) {
      if (!plan.targets.includes(target.name) || failed.has(target.name)) continue;
      if (isReference(target) && round > (plan.referenceRounds ?? plan.rounds)) continue;
      try {
        const measured = await measure(target);
        for (const name of plan.measures) (results[name][target.name] ??= []).push(measured[name]);
      } catch (error) {
        failed.add(target.name);
        bench.remark(`${plan.title}: ${target.name} left out: ${reason(error)}`);
      }
    }
  }
  return results;
}

/** The references get half the time: they are known well enough by then. */
export function segmentSeconds(options: Options, target: Target): number {
  return isReference(target) ? Math.ceil(options.seconds / 2) : options.seconds;
}

function isReference(target: Target): boolean {
  return target.name === "nginx" || target.name === "peer";
}

/** The memory of a target that has done everything once and has come to rest. */
export async function restingBytes(target: Target): Promise<number> {
  await openLoop(target, ask("burst"), { perSecond: 100, seconds: 1 });
  await Bun.sleep(2000);
  return residentBytes(target.pid);
}

/** Gives every variant its turn, round after round; one that fails ends the measurement, because there would be nothing to compare with. */
export async function inTurns<Name extends string>(
  plan: { readonly title: string; readonly rounds: number; readonly variants: Readonly<Record<Name, Target>> },
  measure: (target: Target, name: Name) => Promise<number>,
): Promise<Readonly<Record<Name, readonly number[]>>> {
  const variants = Object.entries(plan.variants) as [Name, Target][];
  const results = Object.fromEntries(variants.map(([name]) => [name, []])) as unknown as Record<Name, number[]>;
  for (let round = 1; round <= plan.rounds; round += 1) {
    console.error(`${plan.title}, round ${round} of ${plan.rounds}`);
    // There and back again, so that nobody is always the first.
    for (const [name, target] of round % 2 === 1 ? variants : variants.toReversed()) results[name].push(await measure(target, name));
  }
  return results;
}

export interface Cpu {
  readonly allMicros: number;
  /** Of that, on the thread that serves calls. */
  readonly mainMicros: number;
}

/**
 * The CPU time of some work with what it leaves behind: a receipt is on its way to the store for a while after its call was answered, and
 * must not be charged to whoever is measured next.
 */
export async function cpuOf<Result>(target: Target, work: () => Promise<Result>): Promise<Cpu & { readonly result: Result }> {
  await atRest(target);
  const before = { all: cpuMicroseconds(target.pid), main: mainThreadMicroseconds(target.pid) };
  const result = await work();
  await atRest(target);
  return {
    result,
    allMicros: cpuMicroseconds(target.pid) - before.all,
    mainMicros: mainThreadMicroseconds(target.pid) - before.main,
  };
}

/** CPU time per request. */
export interface RequestCost {
  readonly all: number;
  /** Of that, on the thread that serves calls. */
  readonly main: number;
}

/**
 * That of some requests, with their receipts, which reach the store a moment later: for turns of one process, which must be short because
 * only neighbours are compared. Null if a thread ended, whose time is in no sum.
 */
export async function requestCost(target: Target, load: () => Promise<number>): Promise<RequestCost | null> {
  await atRest(target);
  return threadCost(target, async () => {
    const requests = await load();
    await atRest(target);
    return requests;
  });
}

/** The same of a load that goes on before and after. Null if a thread ended meanwhile. */
export async function threadCost({ pid }: Target, load: () => Promise<number>): Promise<RequestCost | null> {
  const before = threadMicroseconds(pid);
  const requests = await load();
  const after = threadMicroseconds(pid);
  if (!before.threads.isSubsetOf(after.threads)) return null;
  return { all: (after.all - before.all) / requests, main: (after.main - before.main) / requests };
}

/** A target that never rests is measured as it is. */
export async function atRest(target: Target): Promise<void> {
  const deadline = performance.now() + restsWithinMs;
  for (let before = cpuMicroseconds(target.pid); performance.now() < deadline;) {
    await Bun.sleep(restMs);
    const now = cpuMicroseconds(target.pid);
    if (now - before <= restMicrosMax) return;
    before = now;
  }
}

const restsWithinMs = 10_000;
const restMs = 200;
/** Two ticks of the kernel's clock: one for timers, one for having been counted late. */
const restMicrosMax = 20_000;

/** Counts the CPU time a target takes between the two calls. */
export function stopwatch(target: Target): () => number {
  const before = cpuMicroseconds(target.pid);
  return () => cpuMicroseconds(target.pid) - before;
}

export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
