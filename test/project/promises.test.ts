import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { claimsOf, idsOf } from "../../scripts/prove/claims.ts";
import { requirementsOf } from "../../scripts/prove/commands.ts";
import { readPromises } from "../../scripts/prove/promises.ts";
import { readProof } from "../../scripts/prove/proof.ts";
import { root } from "../../scripts/source-tree.ts";
import { faults } from "../support/faults.ts";
import manifest from "../../package.json" with { type: "json" };

const read = (path: string): string => readFileSync(join(root, path), "utf8");
const readme = read("README.md");
const { promises, problems } = readPromises(read("docs/promises.md"));
const ids = new Set(promises.map(({ id }) => id));

describe("the promises", () => {
  test("each have an id, a sentence, and a command that can be run", () => {
    expect(problems).toEqual([]);
    expect(promises.length).toBeGreaterThan(40);
  });

  test("have commands that name files and scripts that are there", () => {
    const scripts: Readonly<Record<string, string>> = manifest.scripts;
    const missing = promises.flatMap(({ id, command }) => {
      const { files, script } = requirementsOf(command);
      const names = [...files.filter((file) => !existsSync(join(root, file))), ...(script === null || script in scripts ? [] : [script])];
      return names.map((name) => `${id}: ${name}`);
    });
    expect(missing).toEqual([]);
  });

  test("of speed and memory are all there: P1 to P20, each with a bar of the bench", () => {
    const bars = promises.filter(({ command }) => command.kind === "bench").map(({ id }) => id);
    expect(bars).toEqual(Array.from({ length: 20 }, (_, at) => `P${at + 1}`));
    const judged = promises.flatMap(({ id, command }) =>
      command.kind !== "bench" || command.scenarios.some((name) => read(`bench/scenarios/${name}.ts`).includes(`"${id}"`)) ? [] : [id],
    );
    expect(judged).toEqual([]);
  });
});

describe("the README", () => {
  test("makes no claim without the promise that it is about: add `<!-- promise: ID -->` behind the sentence", () => {
    const claims = claimsOf(readme);
    expect(claims.length).toBeGreaterThan(20);
    const without = claims.filter((claim) => claim.ids.length === 0).map(({ line, sentence }) => `line ${line}: ${sentence}`);
    expect(without).toEqual([]);
  });

  test("names promises that there are", () => {
    expect(idsOf(readme).filter((id) => !ids.has(id))).toEqual([]);
  });

  test("is right about the upstream of the tests, which misbehaves in more than a hundred ways", () => {
    expect(Object.keys(faults).length).toBeGreaterThan(100);
  });
});

describe("docs/proof.md, which npm run prove writes,", () => {
  const page = read("docs/proof.md");
  const proof = readProof(page);

  test("has its form: when, where and of what, and for each promise a result with its figure", () => {
    expect(proof.problems).toEqual([]);
    expect(proof.rows.length).toBeGreaterThan(0);
  });

  test("is about each promise that there is, once: `npm run prove -- --rows` adds those that it lacks", () => {
    expect(proof.rows.map(({ id }) => id)).toEqual(promises.map(({ id }) => id));
  });
});
