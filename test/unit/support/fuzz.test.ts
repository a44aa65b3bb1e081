import { expect, setDefaultTimeout, test } from "bun:test";
import { fuzz } from "../../fuzz/fuzz.ts";
import { seededDice, type FuzzTarget } from "../../fuzz/target.ts";
import { fuzzTargets } from "../../fuzz/targets.ts";
import { numRuns } from "../../support/properties.ts";

// A run ends after a few seconds; a machine with other things to do may take its time to begin.
setDefaultTimeout(120_000);

// The same inputs each time, so that what fails here fails for everybody; `npm run fuzz` tries others.
const briefly = { seed: 1, inputsMax: numRuns(1_000), msMax: 6_000 };

test.each(fuzzTargets.map((target) => [target.name, target] as const))("%s keeps its promises for mutated input", async (_, target) => {
  const { finding } = await fuzz(target, briefly);
  expect(finding === null ? null : `${JSON.stringify(Buffer.from(finding.input).toString("latin1"))}: ${finding.problem}`).toBeNull();
});

const breaksAtAQuote: FuzzTarget = {
  name: "breaks at a quote",
  seeds: ["a harmless text of some length"],
  check: (input) => {
    if (input.includes(0x22)) throw new Error("a quote");
    return "fine";
  },
};

test("an input that breaks a promise is found, and shortened to what breaks it", async () => {
  const { finding } = await fuzz(breaksAtAQuote, { seed: 7, inputsMax: 100_000, msMax: 60_000 });
  expect(Buffer.from(finding!.input).toString("latin1")).toBe('"');
  expect(finding!.problem).toContain("a quote");
});

test("the same seed tries the same inputs", async () => {
  const inputsOf = async (seed: number): Promise<readonly string[]> => {
    const inputs: string[] = [];
    const target: FuzzTarget = { ...breaksAtAQuote, check: (input) => inputs.push(Buffer.from(input).toString("hex")).toString() };
    await fuzz(target, { seed, inputsMax: 50, msMax: 60_000 });
    return inputs;
  };
  expect(await inputsOf(3)).toEqual(await inputsOf(3));
  expect(await inputsOf(3)).not.toEqual(await inputsOf(4));
  expect(seededDice(1)(1_000)).not.toBe(seededDice(2)(1_000));
});

const sum = ({ user, system }: NodeJS.CpuUsage): number => user + system;

test("an input that takes seconds is a finding", async () => {
  const slow: FuzzTarget = {
    name: "slow",
    seeds: [""],
    check: () => {
      const began = process.cpuUsage();
      for (let used = 0; used < 1_100_000;) used = sum(process.cpuUsage(began));
      return "done";
    },
  };
  expect((await fuzz(slow, { seed: 1, inputsMax: 1, msMax: 60_000 })).finding?.problem).toContain("ms of processor time");
});
