import { mutate } from "./mutate.ts";
import { seededDice, type FuzzTarget } from "./target.ts";

export interface FuzzRun {
  /** The same seed tries the same inputs in the same order. */
  readonly seed: number;
  /** Whichever bound comes first ends the run. */
  readonly inputsMax: number;
  readonly msMax: number;
}

export interface FuzzReport {
  readonly inputs: number;
  /** How many different outcomes were seen. */
  readonly outcomes: number;
  readonly finding: Finding | null;
}

/** An input that breaks a promise, as short as it could be made, and what it breaks. */
export interface Finding {
  readonly input: Uint8Array;
  readonly problem: string;
}

/** Tries mutated inputs on a target until one breaks a promise or a bound is reached. */
export async function fuzz(target: FuzzTarget, { seed, inputsMax, msMax }: FuzzRun): Promise<FuzzReport> {
  const dice = seededDice(seed);
  const seeds = target.seeds.map(bytesOf);
  const known = [...seeds];
  const words = (target.words ?? []).map(bytesOf);
  const bytesMax = target.bytesMax ?? usualBytesMax;
  const outcomes = new Set<string>();
  const endMs = performance.now() + msMax;
  let inputs = 0;
  for (; inputs < inputsMax && (inputs < seeds.length || performance.now() < endMs); inputs++) {
    const input = inputs < seeds.length ? seeds[inputs]! : mutate(known, words, bytesMax, dice);
    const diceSeed = dice(0x100000000);
    const { outcome, problem } = await tried(target, input, diceSeed);
    if (problem !== null)
      return { inputs: inputs + 1, outcomes: outcomes.size, finding: await shortened(target, { input, problem }, diceSeed) };
    if (outcomes.has(outcome)) continue;
    outcomes.add(outcome);
    if (known.length < knownMax) known.push(input);
    else known[seeds.length + dice(knownMax - seeds.length)] = input;
  }
  return { inputs, outcomes: outcomes.size, finding: null };
}

/** What one input does, for a finding that is looked at again. */
export async function tried(
  target: FuzzTarget,
  input: Uint8Array,
  diceSeed = 0,
): Promise<{ readonly outcome: string; readonly problem: string | null }> {
  const began = process.cpuUsage();
  let outcome = "";
  let problem: string | null = null;
  try {
    // Its own copy: a reader may keep what it is given, or give its memory away.
    outcome = await target.check(Uint8Array.from(input), seededDice(diceSeed));
  } catch (thrown) {
    problem = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  }
  const { user, system } = process.cpuUsage(began);
  const tookMs = (user + system) / 1_000;
  return { outcome, problem: problem ?? (tookMs > inputMsMax ? `it took ${Math.round(tookMs)} ms of processor time` : null) };
}

/** Leaves out what the problem does not need, as far as a bounded number of tries goes. */
async function shortened(target: FuzzTarget, finding: Finding, diceSeed: number): Promise<Finding> {
  let { input, problem } = finding;
  let triesLeft = shorteningsMax;
  for (let size = input.length >> 1; size > 0; size >>= 1) {
    for (let at = 0; at < input.length && triesLeft > 0;) {
      triesLeft--;
      const shorter = Buffer.concat([input.subarray(0, at), input.subarray(at + size)]);
      const again = await tried(target, shorter, diceSeed);
      // Another problem is not what was found.
      if (again.problem === null || kindOf(again.problem) !== kindOf(problem)) at += size;
      else [input, problem] = [shorter, again.problem];
    }
  }
  return { input, problem };
}

function kindOf(problem: string): string {
  return problem.slice(0, Math.min(60, (problem.indexOf("{") + 1 || 61) - 1));
}

function bytesOf(seed: string | Uint8Array): Uint8Array {
  return typeof seed === "string" ? Buffer.from(seed, "latin1") : seed;
}

const usualBytesMax = 4_096;
const knownMax = 512;
const inputMsMax = 1_000;
const shorteningsMax = 2_000;
