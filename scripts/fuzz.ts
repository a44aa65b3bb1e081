import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { fuzz, tried } from "../test/fuzz/fuzz.ts";
import { fuzzTargets } from "../test/fuzz/targets.ts";

/**
 * Tries mutated input on everything that reads bytes of others: `npm run fuzz` for a minute each,
 * `npm run fuzz -- json --seconds 600` for longer on one. A finding is printed with the command that shows it again.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: "string", default: "60" }, seed: { type: "string" }, input: { type: "string" } },
});
const unknown = positionals.filter((name) => !fuzzTargets.some((target) => target.name === name));
if (unknown.length > 0) {
  console.error(`There is no target ${unknown.join(", ")}. There are: ${fuzzTargets.map(({ name }) => name).join(", ")}.`);
  process.exit(2);
}
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
    msMax: Number(values.seconds) * 1_000,
  });
  console.log(`${target.name}: ${inputs} inputs, ${outcomes} outcomes, seed ${seed}`);
  if (finding === null) continue;
  process.exitCode = 1;
  const input = Buffer.from(finding.input);
  console.log(`${JSON.stringify(input.toString("latin1"))}\n${finding.problem}`);
  console.log(`again: npm run fuzz -- ${target.name} --input ${input.toString("base64")}`);
}
