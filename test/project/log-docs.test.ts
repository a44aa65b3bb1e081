import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Glob } from "bun";

const root = join(import.meta.dir, "../..");
const page = readFileSync(join(root, "docs/observability.md"), "utf8");
const source = [...new Glob("src/**/*.ts").scanSync(root)].map((file) => readFileSync(join(root, file), "utf8")).join("\n");

function namesIn(text: string, pattern: RegExp): string[] {
  return [...new Set([...text.matchAll(pattern)].map((match) => match[1]!))];
}

test("docs/observability.md says what each event of the log means", () => {
  const events = [
    ...namesIn(source, /\blog\.(?:debug|info|warn|error)\(\s*"([a-z_]+)"/g),
    // Passed on to the log by the app.
    ...namesIn(source, /\b(?:notice|onEvent)\(\s*"([a-z_]+)"/g),
  ];
  expect(events.length).toBeGreaterThan(40);
  expect(events.filter((event) => !page.includes(`\`${event}\``))).toEqual([]);
});

test("docs/observability.md names each field of the line of a call", () => {
  const line = readFileSync(join(root, "src/telemetry/access.ts"), "utf8");
  const fields = namesIn(line.slice(line.indexOf("return {"), line.indexOf("\n  };")), /^ {4}([a-z_]+)[:,]/gm);
  expect(fields.length).toBeGreaterThan(25);
  expect(fields.filter((field) => !["time", "level", "event"].includes(field) && !page.includes(`\`${field}\``))).toEqual([]);
});
