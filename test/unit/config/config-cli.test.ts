import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseArguments } from "../../../src/cli/arguments.ts";
import type { Invocation } from "../../../src/cli/invocation.ts";
import { parseStart } from "../../../src/cli/program.ts";
import { renderCheck, type CheckReport } from "../../../src/cli/check.ts";
import { renderProblem } from "../../../src/config/load.ts";

function parse(line: string): Invocation {
  return parseArguments(
    line.split(" ").filter((word) => word !== ""),
    "1.2.3",
  );
}

describe("the command line", () => {
  test.each<[string, Invocation]>([
    ["start", { command: "start", config: null, listen: null, admin: null }],
    ["start --config a.yaml", { command: "start", config: "a.yaml", listen: null, admin: null }],
    ["start -c a.yaml -l [::1]:1", { command: "start", config: "a.yaml", listen: "[::1]:1", admin: null }],
    ["start --config=a.yaml --listen 0.0.0.0:80", { command: "start", config: "a.yaml", listen: "0.0.0.0:80", admin: null }],
    ["check", { command: "check", file: null, json: false }],
    ["check a.yaml", { command: "check", file: "a.yaml", json: false }],
    ["check --config a.yaml --json", { command: "check", file: "a.yaml", json: true }],
    ["check a.yaml --config a.yaml", { command: "check", file: "a.yaml", json: false }],
    ["health", { command: "health", address: null }],
    ["health http://127.0.0.1:8080", { command: "health", address: "http://127.0.0.1:8080" }],
    ["--version", { command: "version", text: "1.2.3" }],
    ["-V", { command: "version", text: "1.2.3" }],
  ])("%s", (line, expected) => {
    expect(parse(line)).toEqual(expected);
  });

  test.each([
    "start",
    "start -c a.yaml -w 4 --worker 2 --worker-port 4400",
    "start --help",
    "start --cofnig a.yaml",
    "start --config",
    "start now",
    "start help",
    "start --workers x --url http://127.0.0.1:1",
    "start --version",
  ])("%s means the same where the other commands are not loaded", (line) => {
    expect(parseStart(line.split(" "), "1.2.3")).toEqual(parse(line));
  });

  test.each(["", "--help", "-h", "help", "help start", "start --help", "check --help", "health --help"])(
    "help on «%s» shows an example",
    (line) => {
      const invocation = parse(line);
      expect(invocation.command).toBe("help");
      expect(invocation.command === "help" ? invocation.text : "").toContain("$ sluice");
    },
  );

  test.each<[string, RegExp]>([
    ["strat", /unknown command 'strat'[\s\S]*Did you mean start/],
    ["frobnicate", /unknown command/],
    ["start --nope", /unknown option '--nope'/],
    ["start --config", /argument missing/],
    ["start extra", /too many arguments/],
    ["check a b", /too many arguments/],
    ["check a --config b", /two different files/],
    ["--nope", /unknown option[\s\S]*See sluice --help$/],
    ["strat", /See sluice --help$/],
    ["start --nope", /See sluice start --help$/],
    // The help of a group stands there already.
    ["keys", /^Usage: sluice keys(?![\s\S]*See sluice)/],
    ["keys create", /missing required argument[\s\S]*See sluice keys create --help$/],
    ["accounts tokens create x --role king", /See sluice accounts tokens create --help$/],
  ])("«%s» is a usage error with exit code 64", (line, words) => {
    const invocation = parse(line);
    expect(invocation).toMatchObject({ command: "usage-error", exitCode: 64 });
    expect(invocation.command === "usage-error" ? invocation.text : "").toMatch(words);
  });

  test("any arguments are answered, without printing or exiting", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.constantFrom("start", "check", "help", "--config", "--json", "-c", "--", "-V"))),
        (words) => {
          expect(parseArguments(words, "1.2.3").command).toBeString();
        },
      ),
    );
  });
});

describe("the result of a check", () => {
  const problem = { line: 3, path: "listen", reason: "this is wrong", fix: "do this" };
  const report: CheckReport = { file: "a.yaml", ok: true, problems: [], warnings: [], channels: 2, keys: 1 };

  test("of a valid file is one line and exit code 0", () => {
    expect(renderCheck(report, false, renderProblem)).toEqual({
      text: "a.yaml can be used: 2 channels, 1 key",
      exitCode: 0,
    });
  });

  test("of an invalid file names each problem, with exit code 78", () => {
    const bad = { ...report, ok: false, problems: [problem], warnings: [] };
    expect(renderCheck(bad, false, renderProblem)).toEqual({
      text: "a.yaml:3: listen: this is wrong\n  do this\na.yaml cannot be used: 1 problem",
      exitCode: 78,
    });
  });

  test("with warnings shows them, with exit code 0", () => {
    const { text, exitCode } = renderCheck({ ...report, file: null, warnings: [problem] }, false, renderProblem);
    expect([text, exitCode]).toEqual([
      "warning: 3: listen: this is wrong\n  do this\nthe environment can be used: 2 channels, 1 key, 1 warning",
      0,
    ]);
  });

  test("as JSON is the whole report", () => {
    const { text, exitCode } = renderCheck({ ...report, ok: false, problems: [problem] }, true, renderProblem);
    expect(JSON.parse(text)).toEqual({ ...report, ok: false, problems: [problem] });
    expect(exitCode).toBe(78);
  });
});
