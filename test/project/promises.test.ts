import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { claimsOf, idsOf, saidBy } from "../../scripts/prove/claims.ts";
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

  test("of speed and memory are all there: P1 to P22, each with a bar of the bench", () => {
    const bars = promises.filter(({ command }) => command.kind === "bench").map(({ id }) => id);
    expect(bars).toEqual(Array.from({ length: 22 }, (_, at) => `P${at + 1}`));
    const judged = promises.flatMap(({ id, command }) =>
      command.kind !== "bench" || command.scenarios.some((name) => read(`bench/scenarios/${name}.ts`).includes(`"${id}"`)) ? [] : [id],
    );
    expect(judged).toEqual([]);
  });
});

/** How sentences of the README begin that promise something without a number and without an absolute word, and the promise. */
const plainClaims: readonly (readonly [string, string])[] = [
  ["It serves chat completions, transcription, text-to-speech, embeddings, images and moderations", "operations"],
  ["A package and a single executable file work as well", "executable"],
  ["It runs on Linux and macOS, x64 and arm64", "platforms"],
  ["LangChain, the Vercel AI SDK, LlamaIndex and the Python client work the same way", "openai-clients"],
  ["LangChain, the Vercel AI SDK, LlamaIndex and the Python client work the same way", "python-clients"],
  ["If `main` refuses for reasons of its own (401, 429, 5xx), stalls, disconnects or sends an invalid answer", "failover"],
  ["The gateway reloads the file when it changes", "reload"],
  ["If the new file has a mistake, the old configuration stays in use", "reload"],
  ["A web console shows what happens, why a call went as it did and what it cost", "console"],
  ["Several machines can share a PostgreSQL", "replicas"],
  ["**Clients of other APIs work as well.**", "other-apis"],
  ["**Clients of other APIs work as well.**", "agents"],
  ["**A stream is either complete or reported as broken.**", "whole-streams"],
  ["**Clients get the format they asked for**", "audio-formats"],
  ["**Clients get the format they asked for**", "transcript-formats"],
  ["**When the client disconnects, the upstream request is cancelled**", "cancel"],
  ["`npm run prove` runs the commands behind", "proof"],
];

describe("the README", () => {
  test("makes no claim without the promise that it is about: add `<!-- promise: ID -->` behind the sentence", () => {
    const claims = claimsOf(readme);
    expect(claims.length).toBeGreaterThan(20);
    const without = claims.filter((claim) => claim.ids.length === 0).map(({ line, sentence }) => `line ${line}: ${sentence}`);
    expect(without).toEqual([]);
  });

  test.each(plainClaims)(
    "says with the promise that it is about, though no number tells that it claims something: %s … (%s)",
    (begins, id) => {
      const said = saidBy(readme).filter(({ sentence }) => sentence.startsWith(begins));
      expect(said.map(({ ids: named }) => named)).toEqual([expect.arrayContaining([id])]);
    },
  );

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
