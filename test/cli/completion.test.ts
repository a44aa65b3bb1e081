import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { parseArguments } from "../../src/cli/arguments.ts";
import { completionShells } from "../../src/cli/completion/completion-script.ts";

function script(shell: string): string {
  const invocation = parseArguments(["completion", shell], "0.0.0");
  if (invocation.command !== "completion") throw new Error(`no script for ${shell}`);
  return invocation.text;
}

/** What bash offers after these words, the last of which is being typed. */
function offered(...words: readonly string[]): readonly string[] {
  const typed = ["sluice", ...words].map((word) => `'${word}'`).join(" ");
  const run = Bun.spawnSync(
    [
      "bash",
      "--noprofile",
      "--norc",
      "-c",
      `${script("bash")}\nCOMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _sluice; printf '%s\\n' "\${COMPREPLY[@]}"`,
    ],
    { stderr: "pipe" },
  );
  return run.stdout.toString().trim().split("\n");
}

test("there is a script for each shell, and help for another one", () => {
  for (const shell of completionShells) expect(script(shell)).toContain("keys");
  expect(parseArguments(["completion", "cmd"], "0.0.0").command).toBe("usage-error");
});

describe.skipIf(!existsSync("/bin/bash"))("in bash", () => {
  test("commands are completed, and those of a group, and the options of a command", () => {
    expect(offered("")).toEqual(expect.arrayContaining(["start", "keys", "completion", "--version"]));
    expect(offered("st")).toEqual(["start"]);
    expect(offered("keys", "cr")).toEqual(["create"]);
    expect(offered("keys", "create", "laptop", "--js")).toEqual(["--json"]);
  });

  test("a name of the user's that is also a command changes nothing", () => {
    expect(offered("keys", "create", "start", "--js")).toEqual(["--json"]);
  });
});
