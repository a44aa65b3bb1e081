import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Glob } from "bun";
import { accessLine } from "../../src/telemetry/access.ts";
import { attempt, callRecord } from "../support/call-records.ts";

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
  const { time: _time, level: _level, event: _event, ...fields } = accessLine(callRecord([attempt()]), "");
  expect(Object.keys(fields).length).toBeGreaterThan(25);
  expect(Object.keys(fields).filter((field) => !page.includes(`\`${field}\``))).toEqual([]);
});
