import { describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFileText } from "../../src/config/file-text.ts";
import { loadConfig } from "../../src/config/load.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";

const mebibyte = 1024 * 1024;

/** Parsing a file of the largest size takes a second or two; a busy machine may need many times that. */
const parseMs = 120_000;

function fileWith(keys: number): string {
  const entries = Array.from({ length: keys }, (_, at) => `  - name: key-${at}\n    key: client-key-0123456789-${at}\n`);
  return `keys:\n${entries.join("")}channels:\n  - name: up\n    base_url: https://up.example.com/v1\n    models: [m]\n`;
}

const source = { path: null, env: {}, nofile: 20_000, nowMs: Date.parse("2026-11-15") };

describe("a file", () => {
  test("of 1 MiB is read, and one byte more is refused with a pointer to the store", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "sluice-large-")), "sluice.yaml");
    const text = fileWith(10).padEnd(mebibyte, "#");
    writeFileSync(file, text);
    expect(await readFileText(file)).toBe(text);
    writeFileSync(file, `${text}#`);
    expect(await readFileText(file)).toMatchObject({
      line: null,
      reason: "the file is larger than 1 MiB",
      fix: expect.stringMatching(/store \(`sluice keys create`\).*admin API/),
    });
  });

  test(
    "of the largest size is loaded with its lines, and the event loop goes on meanwhile",
    async () => {
      const text = `${fileWith(17_000)}    wieght: 2\n`;
      expect(text.length).toBeGreaterThan(0.9 * mebibyte);
      let turns = 0;
      const turning = setInterval(() => (turns += 1), 0);
      const loaded = await loadConfig({ ...source, text });
      clearInterval(turning);
      expect(loaded).toMatchObject({ ok: false, problems: [{ line: text.split("\n").length - 1, path: "channels[0].wieght" }] });
      // Parsing it takes hundreds of milliseconds in slices of four.
      expect(turns).toBeGreaterThan(10);
    },
    parseMs,
  );
});

/** What a parser could take long for, or say much about: how the file begins, and what the rest of it is made of. */
const hostile: readonly (readonly [string, string, string])[] = [
  ["brackets that open", "a: ", "["],
  ["braces that open", "a: ", "{"],
  ["brackets that close", "", "]\n"],
  ["entries of entries", "", "- "],
  ["entries of entries, and one that stands elsewhere", `${"- ".repeat(5000)}x\n`, "   - x\n"],
  ["names of names", "", "? "],
  ["colons", "", ": "],
  ["documents", "", "---\n"],
  ["directives", "", "%A\n"],
  ["anchors", "a: ", "&a "],
  ["tags", "", "!a "],
  ["tabs", "", "\ta: 1\n"],
  ["colons too many", "x:\n", "a: b: c\n"],
  ["escapes that are none", 'a: "', "\\q"],
  ["a quote that does not end", "a: '", "b\n "],
  ["indentation that is wrong", "", "a:\n   b: 1\n  c: 2\n"],
  ["names that are given twice", "", "aaaa:\n"],
];

test.each(hostile)(
  "a file made of %s is refused in a few words",
  async (_, start, repeated) => {
    const loaded = await loadConfig({ ...source, text: start + repeated.repeat((32 * 1024) / repeated.length) });
    if (loaded.ok) throw new Error("it was taken");
    expect(loaded.problems.length).toBeLessThanOrEqual(20);
    for (const { reason, fix } of loaded.problems) expect(reason.length + fix.length).toBeLessThan(400);
  },
  parseMs,
);

test(
  "a long text is not unfolded thousands of times",
  async () => {
    const text = `a: &a ${"x".repeat(mebibyte / 4)}\nb: [${"*a, ".repeat(mebibyte / 16)}]\n`;
    const loaded = await loadConfig({ ...source, text });
    expect(loaded.ok ? [] : loaded.problems).toContainEqual({
      line: 1,
      path: "",
      reason: "the aliases of this file expand into too many values",
      fix: "use fewer aliases",
    });
  },
  parseMs,
);

test(
  "a file of more signs than a usual one of that size can have is refused before anything is made of them",
  async () => {
    const text = `a: [${"1,".repeat(mebibyte / 2 - 3)}]`;
    expect(await loadConfig({ ...source, text })).toMatchObject({
      ok: false,
      problems: [
        { line: null, path: "", reason: expect.stringContaining("more values and punctuation"), fix: expect.stringContaining("store") },
      ],
    });
  },
  parseMs,
);

test("calls are served while a large file is read, and none fails", async () => {
  const first = { name: "first", key: "client-key-0123456789" };
  const channels = [{ name: "up", base_url: "http://127.0.0.1:9/v1", models: ["m"] }];
  const many = Array.from({ length: 10_000 }, (_, at) => ({ name: `key-${at}`, key: `${first.key}-${at}` }));
  await using gateway = await startGateway({ config: { keys: [first], channels, server: { linger: "0s", drain: "0s" } } });
  const config = (round: number): Record<string, unknown> => ({ keys: [first, ...many.slice(round)], channels });
  const answeredMs: number[] = [];
  const statuses = new Set<number>();
  let asking = true;
  const client = async (): Promise<void> => {
    while (asking) {
      const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${first.key}` } });
      await response.arrayBuffer();
      statuses.add(response.status);
      answeredMs.push(Date.now());
    }
  };
  const clients = [client(), client()];
  // A busy machine may let us wait as well: one quiet round out of some shows that the reload does not.
  let silence = 1;
  for (let round = 0; round < 5 && silence > 0.5; round += 1) {
    const before = gateway.logs.filter(({ event }) => event === "reloaded").length;
    await gateway.rewriteConfig(config(round));
    const toldMs = Date.now();
    gateway.signal("SIGHUP");
    await eventually("reloaded", () => gateway.logs.filter(({ event }) => event === "reloaded").length > before);
    const reloadedMs = Date.parse(String(gateway.logs.findLast(({ event }) => event === "reloaded")?.["time"]));
    const times = [toldMs, ...answeredMs.filter((ms) => ms > toldMs && ms < reloadedMs), reloadedMs];
    const longestMs = Math.max(...times.slice(1).map((ms, at) => ms - (times[at] ?? 0)));
    silence = longestMs / Math.max(1, reloadedMs - toldMs);
  }
  asking = false;
  await Promise.all(clients);
  expect(silence).toBeLessThanOrEqual(0.5);
  expect([...statuses]).toEqual([200]);
}, 60_000);
