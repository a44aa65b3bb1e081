// Needs: slow. npm run typecheck, npm run lint and npm run format prove the same, and a contributor runs them before npm test.
import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

// The compiler reads every file; how long that takes is not judged.
setDefaultTimeout(120_000);

const root = resolve(import.meta.dir, "../..");
const folders = ["src", "test", "bench", "scripts", "packages"].filter((folder) => existsSync(join(root, folder)));

/** What the tool has to say about the code; nothing, if it is content. */
async function complaints(tool: string, ...flags: readonly string[]): Promise<string> {
  const child = Bun.spawn(["sh", join(root, "bin/tool"), tool, ...flags], {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [said, cried, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return code === 0 ? "" : `${tool} ended with ${code}:\n${said}${cried}`.trim();
}

// All three at once: each mostly waits for its own threads.
const runs = {
  tsc: complaints("tsc", "--noEmit", "--project", "."),
  oxlint: complaints("oxlint", "--format=unix", ...folders),
  oxfmt: complaints("oxfmt", "--check", ...folders),
};

test("the code compiles, under the strictest settings", async () => {
  expect(await runs.tsc).toBe("");
});

test("the linter, which knows the types, finds nothing", async () => {
  expect(await runs.oxlint).toBe("");
});

test("the code is formatted (if not: npm run format)", async () => {
  expect(await runs.oxfmt).toBe("");
});
