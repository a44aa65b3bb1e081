import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArguments } from "../../../src/cli/arguments.ts";
import { asTyped, commandName, launchOf, toldLaunch, type Launch } from "../../../src/cli/process/own-command.ts";

const text = "Run sluice start, sluice start --config sluice.yaml or sluice keys create NAME.";

test.each([
  ["npm start in a clone", { npm_lifecycle_event: "start", npm_package_name: "sluice" }, null, "npm start", "npm run --silent sluice --"],
  ["npm run sluice", { npm_lifecycle_event: "sluice", npm_package_name: "sluice" }, null, "npm start", "npm run --silent sluice --"],
  ["npx", { npm_lifecycle_event: "npx", npm_package_name: "theirs" }, null, "npx sluice start", "npx sluice"],
  ["a script of another package", { npm_lifecycle_event: "start", npm_package_name: "theirs" }, null, "sluice start", "sluice"],
  ["its name", {}, null, "sluice start", "sluice"],
  ["an executable file", {}, "./sluice-linux-x64", "./sluice-linux-x64 start", "./sluice-linux-x64"],
] as const)("a hint names the command that was used: %s", (_, env, executable, start, other) => {
  const typed = asTyped(text, launchOf(env, "sluice", executable));
  const options = start === "npm start" ? "npm start -- --config" : `${start} --config`;
  expect(typed).toBe(`Run ${start}, ${options} sluice.yaml or ${other} keys create NAME.`);
});

test("a hint names what was given to npx, and not a name that the public registry may know as somebody else's", () => {
  const home = mkdtempSync(join(tmpdir(), "sluice-test-"));
  try {
    const typed = (packages: unknown): string => {
      writeFileSync(join(home, "package.json"), JSON.stringify({ _npx: { packages } }));
      return asTyped("sluice keys list", launchOf({ npm_lifecycle_event: "npx" }, "sluice", null, home));
    };
    expect(typed(["./dist/sluice-0.1.0.tgz"])).toBe("npx ./dist/sluice-0.1.0.tgz keys list");
    expect(typed(["./my files/sluice.tgz"])).toBe("npx './my files/sluice.tgz' keys list");
    // npx runs the file at an absolute path, and installs it where it is given as a package.
    expect(typed(["/tmp/sluice.tgz"])).toBe("npx 'file:/tmp/sluice.tgz' keys list");
    expect([undefined, [], ["a", "b"], [1], "a"].map(typed)).toEqual(Array.from({ length: 5 }, () => "npx sluice keys list"));
  } finally {
    rmSync(home, { recursive: true });
  }
});

test("every command that there is can be part of a hint", () => {
  const help = parseArguments(["--help"], "0.0.0");
  const list = "text" in help ? help.text.slice(help.text.indexOf("Commands:")) : "";
  const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = ""]) => name);
  expect(names.length).toBeGreaterThan(20);
  const launch = launchOf({ npm_lifecycle_event: "npx" }, "sluice", null);
  expect(names.filter((name) => asTyped(`see sluice ${name} --help`, launch) !== `see npx sluice ${name} --help`)).toEqual([]);
});

test("options before a command are part of a hint too", () => {
  const launch = launchOf({ npm_lifecycle_event: "start", npm_package_name: "sluice" }, "sluice", null);
  const hint = "sluice --url https://gateway:4401 keys list";
  expect(asTyped(hint, launch)).toBe("npm run --silent sluice -- --url https://gateway:4401 keys list");
});

test("other mentions of the name stay", () => {
  const launch = launchOf({ npm_lifecycle_event: "npx" }, "sluice", null);
  for (const kept of ["sluice.yaml", "data/sluice.db", "Sluice is listening", "sluice"]) expect(asTyped(kept, launch)).toBe(kept);
});

test.each([
  [{ by: "npm" }, "npm run --silent sluice --"],
  [{ by: "npx", package: "sluice" }, "npx sluice"],
  [{ by: "npx", package: "@acme/sluice@1.2.0" }, "npx '@acme/sluice@1.2.0'"],
  [{ by: "npx", package: "./dist/sluice-0.1.0.tgz" }, "npx ./sluice-0.1.0.tgz"],
  [{ by: "npx", package: "../ada/sluice.tgz" }, "npx ./sluice.tgz"],
  [{ by: "npx", package: "file:/home/ada/sluice-0.1.0.tgz" }, "npx ./sluice-0.1.0.tgz"],
  [{ by: "npx", package: "file:/home/ada/sluice" }, "sluice"],
  [{ by: "npx", package: "sluice@file:/home/ada/sluice-0.1.0.tgz" }, "sluice"],
  [{ by: "npx", package: "git+file:///home/ada/sluice.git" }, "sluice"],
  [{ by: "npx", package: "git+https://ada:se@cret@git.example/sluice.git" }, "sluice"],
  [{ by: "npx", package: "https://files.example/sluice.tgz?X-Amz-Signature=abc" }, "sluice"],
  [{ by: "npx", package: "github:acme/sluice" }, "sluice"],
  [{ by: "name", name: "/home/ada/sluice-linux-x64" }, "sluice-linux-x64"],
] as const satisfies readonly (readonly [Launch, string])[])("clients are told of no folder and no secret: %j", (launch, told) => {
  expect(commandName(toldLaunch(launch))).toBe(told);
});

test("a command that is written as it is typed stays, whoever passes it on", () => {
  const launches: readonly Launch[] = [
    { by: "npm" },
    { by: "npx", package: "sluice" },
    { by: "npx", package: "github:acme/sluice" },
    { by: "name", name: "/usr/local/bin/sluice" },
  ];
  for (const launch of launches) {
    const typed = asTyped("Run `sluice keys list`.", launch);
    expect(asTyped(typed, { by: "npm" })).toBe(typed);
  }
});
