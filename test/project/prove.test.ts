import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { readPromises } from "../../scripts/prove/promises.ts";
import { readProof } from "../../scripts/prove/proof.ts";
import { root } from "../../scripts/source-tree.ts";

// It runs a file of tests, as `npm run prove` does with all of them.
setDefaultTimeout(240_000);

const folder = mkdtempSync(join(tmpdir(), "sluice-prove-test-"));
const page = join(root, "docs/proof.md");
const { promises } = readPromises(readFileSync(join(root, "docs/promises.md"), "utf8"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function prove(...words: readonly string[]): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const child = Bun.spawn(["sh", join(root, "bin/bun"), join(root, "scripts/prove.ts"), ...words], {
    cwd: folder,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return { code, out, err };
}

test("npm run prove runs the command of a promise and writes what came of it: when, of which commit and on which machine", async () => {
  const before = readFileSync(page, "utf8");
  const beganMs = Date.now();
  const { code, out, err } = await prove("--only", "schema", "--write", "--out", "proof.md");
  const endedMs = Date.now();
  expect({ code, out, err }).toMatchObject({ code: 0, out: expect.stringMatching(/^schema: shown: \d+ tests passed\n1 shown, /) });
  expect(out).toEndWith("; proof.md was written\n");

  const written = readFileSync(join(folder, "proof.md"), "utf8");
  const { rows, problems } = readProof(written);
  expect(problems).toEqual([]);
  expect(rows.map(({ id }) => id)).toEqual(promises.map(({ id }) => id));
  const ran = rows.filter(({ result }) => result !== "not run");
  expect(ran).toEqual([{ id: "schema", result: "shown", figure: expect.stringMatching(/^[1-9]\d* tests passed$/) }]);
  expect(written).toMatch(
    /^\| schema \| shown \| .* \| `sh bin\/test test\/unit\/config\/json-schema\.test\.ts` \| \d+(?: s|:\d\d min) \|$/m,
  );

  const fact = (name: string): string => new RegExp(`^\\| ${name} \\| (.*) \\|$`, "m").exec(written)?.[1] ?? "";
  // It is told to the minute.
  const writtenMs = Date.parse(fact("date").replace(" ", "T").replace(" UTC", "Z"));
  expect(writtenMs).toBeWithin(beganMs - 60_000, endedMs + 1);
  const commit = Bun.spawnSync(["git", "rev-parse", "HEAD"], { cwd: root }).stdout.toString().trim();
  expect(commit).toMatch(/^[0-9a-f]{40}$/);
  expect(fact("commit").replace(", with changes that were not committed", "")).toBe(commit.slice(0, 12));
  expect(fact("processors")).toBe(`${availableParallelism()} × ${cpus()[0]?.model.trim() ?? "unknown"}`);
  expect(readFileSync(page, "utf8")).toBe(before);
});

test("npm run prove -- --list shows each promise with its command, and runs none", async () => {
  const { code, out, err } = await prove("--list");
  const listed = promises.map(({ id, claim, commandText }) => `${id}: ${claim}\n    ${commandText}\n`).join("");
  expect({ code, out, err }).toEqual({ code: 0, out: listed, err: "" });
});

test("npm run prove -- --only refuses a promise that there is none of, and writes nothing", async () => {
  const { code, out, err } = await prove("--only", "schema,nothing", "--write", "--out", "other.md");
  expect({ code, out, err }).toEqual({ code: 64, out: "", err: 'there is no promise "nothing"; --list shows all\n' });
  expect(await Bun.file(join(folder, "other.md")).exists()).toBe(false);
});
