import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { fuzz, tried } from "../test/fuzz/fuzz.ts";
import { fuzzTargets } from "../test/fuzz/targets.ts";

const usage = `npm run fuzz -- [targets] [options]

Tries mutated input on everything that reads bytes of others. A finding is printed with the command that shows it again, and the
exit code is 1.

  --seconds N    how long for each target (60)
  --seed N       the order of the mutations; the one of a run is printed
  --input TEXT   try this input alone, in base64

Targets: ${fuzzTargets.map(({ name }) => name).join(", ")}. Without a name, all of them.`;

const { values, positionals } = given();
if (values.help) leave(0, usage);
const seconds = Number(values.seconds);
if (!(seconds > 0)) leave(2, `--seconds must be a number above 0, not ${values.seconds}.`);
if (values.seed !== undefined && !Number.isSafeInteger(Number(values.seed))) leave(2, `--seed must be a whole number, not ${values.seed}.`);
const unknown = positionals.filter((name) => !fuzzTargets.some((target) => target.name === name));
if (unknown.length > 0) leave(2, `There is no target ${unknown.join(", ")}. There are: ${fuzzTargets.map(({ name }) => name).join(", ")}.`);
const targets = positionals.length === 0 ? fuzzTargets : fuzzTargets.filter(({ name }) => positionals.includes(name));
for (const target of targets) {
  if (values.input !== undefined) {
    const { outcome, problem } = await tried(target, Buffer.from(values.input, "base64"));
    console.log(`${target.name}: ${problem ?? outcome}`);
    if (problem !== null) process.exitCode = 1;
    continue;
  }
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  const { inputs, outcomes, finding } = await fuzz(target, {
    seed,
    inputsMax: Number.POSITIVE_INFINITY,
    msMax: seconds * 1_000,
  });
  console.log(`${target.name}: ${inputs} inputs, ${outcomes} outcomes, seed ${seed}`);
  if (finding === null) continue;
  process.exitCode = 1;
  const input = Buffer.from(finding.input);
  console.log(`${JSON.stringify(input.toString("latin1"))}\n${finding.problem}`);
  console.log(`again: npm run fuzz -- ${target.name} --input ${input.toString("base64")}`);
}

function given() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        seconds: { type: "string", default: "60" },
        seed: { type: "string" },
        input: { type: "string" },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    leave(2, `${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
  }
}

function leave(code: number, text: string): never {
  (code === 0 ? console.log : console.error)(text);
  process.exit(code);
}
