import { expect, test } from "bun:test";
import { getPriority } from "node:os";
import { resolve } from "node:path";

const program = resolve(import.meta.dir, "../../packages/embedded/src/lower-priority.ts");

async function priorityWith(niceness: string | undefined): Promise<number> {
  const script = `import { lowerPriority } from ${JSON.stringify(program)}; import { getPriority } from "node:os"; lowerPriority(); console.log(getPriority());`;
  const env = { PATH: process.env["PATH"] ?? "", ...(niceness === undefined ? {} : { SLUICE_ENGINE_NICENESS: niceness }) };
  const child = Bun.spawn([process.execPath, "-e", script], { env, stdout: "pipe", stderr: "inherit" });
  return Number(await new Response(child.stdout).text());
}

test.each([
  [undefined, 10],
  ["15", 15],
  ["", 10],
  ["20", 10],
  ["-5", 10],
  ["often", 10],
])("SLUICE_ENGINE_NICENESS=%p gives an engine the niceness %p", async (asked, expected) => {
  // Nobody but root may go below where they are.
  expect(await priorityWith(asked)).toBe(Math.max(expected, getPriority()));
});
