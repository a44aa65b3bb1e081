// Needs: slow. A compiler reads the types of all providers; clients/ proves that official clients read what is written.
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chatDialects, compatibilityRows, compatibilityRowsOf } from "../../scripts/compatibility/page.ts";
import type { TrafficForm, TrafficItem } from "../../scripts/compatibility/traffic.ts";
import type { ListedModel } from "../../src/surfaces/anthropic-messages/models.ts";
import { countTokensBody, modelBody, modelsBody, tokenCountBody } from "../../src/surfaces/index.ts";
import { answerTypes, otherTypes, requestTypes, type TypePackages, type WireTypes } from "./wire-types.ts";

const root = join(import.meta.dir, "../..");
const folders: Readonly<Record<TypePackages, string>> = {
  test: join(root, "test/node_modules"),
  types: join(import.meta.dir, "node_modules"),
};
const typeNames: Readonly<Record<TrafficForm, string>> = {
  ...{ request: "Request", whole: "Whole", event: "StreamEvent", error: "ErrorBody", errorEvent: "ErrorEvent" },
};

/** The documents of one API, whose types they must have. */
interface Checked {
  readonly name: string;
  readonly types: WireTypes;
  readonly items: readonly TrafficItem[];
}

const model: ListedModel = { id: "m", displayName: null, createdSeconds: 1_700_000_000 };
const others: Readonly<Record<keyof typeof otherTypes, Uint8Array>> = {
  "the models in anthropic-messages": modelsBody([model], { limit: null, afterId: null, beforeId: null }) as Uint8Array,
  "a model in anthropic-messages": modelBody(model),
  "a count of tokens in anthropic-messages": countTokensBody(7),
  "a count of tokens in gemini": tokenCountBody(7),
};

let mistakes: ReadonlyMap<string, readonly string[]>;
let checked: readonly Checked[];
let folder: string;

beforeAll(async () => {
  const all = await compatibilityRows();
  const openai = chatDialects.find(({ name }) => name === "openai")!;
  const ofMaker = await compatibilityRowsOf(openai, { provider: "openai", api_key: "k", models: ["gpt-5.1"] });
  // Clients of the same API send what they like; for some it is asked in its other API.
  const sent = ofMaker.filter(({ surface }) => surface !== "openai-chat").flatMap(({ traffic }) => traffic);
  const requests = [
    ...all,
    { dialect: "openai (of its maker)", traffic: sent.filter(({ value }) => !isResponse(value)) },
    { dialect: "openai-responses", traffic: sent.filter(({ value }) => isResponse(value)) },
  ];
  checked = [
    ...Object.entries(requestTypes).map(([dialect, types]): Checked => {
      const items = requests.flatMap((one) => (one.dialect === dialect ? one.traffic : []));
      return { name: `requests in ${dialect}`, types, items: items.filter(({ form }) => form === "request") };
    }),
    ...Object.entries(answerTypes).map(([surface, types]): Checked => {
      const items = all.flatMap((one) => (one.surface === surface ? one.traffic : []));
      return { name: `answers in ${surface}`, types, items: items.filter(({ form }) => form !== "request") };
    }),
    ...Object.entries(otherTypes).map(([name, types]): Checked => {
      const value: unknown = JSON.parse(new TextDecoder().decode(others[name as keyof typeof otherTypes]));
      return { name, types, items: [{ form: "whole", value }] };
    }),
  ];
  folder = mkdtempSync(join(tmpdir(), "sluice-types-"));
  mistakes = new Map((["test", "types"] as const).filter(isInstalled).flatMap((packages) => [...compile(packages)]));
  // The compiler reads many types, on a machine that may be busy with other tests.
}, 300_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function isResponse(request: unknown): boolean {
  return typeof request === "object" && request !== null && "input" in request;
}

function isInstalled(packages: TypePackages): boolean {
  return existsSync(join(folders[packages], packages === "test" ? "openai" : "cohere-ai"));
}

/** What the compiler says of the documents whose types are in these packages, by their names. One run for all: it reads the types once. */
function compile(packages: TypePackages): ReadonlyMap<string, readonly string[]> {
  const own = checked.filter(({ types }) => types.packages === packages);
  const place = join(folder, packages);
  mkdirSync(place);
  symlinkSync(folders[packages], join(place, "node_modules"));
  const options = {
    ...{ target: "esnext", module: "esnext", moduleResolution: "bundler", lib: ["esnext", "dom"], types: [] },
    ...{ strict: true, skipLibCheck: true, noEmit: true },
  };
  writeFileSync(join(place, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
  const lines = own.map(({ types, items }, at) => {
    const documents = items.map((item, index) => declared(`d${index}`, item));
    const wrong = items.flatMap((item, index) =>
      odd(item).flatMap((one, each) => ["// @ts-expect-error", declared(`w${index}_${each}`, one)]),
    );
    const text = [...types.declarations.split("\n"), ...documents, ...wrong, "export {};", ""];
    writeFileSync(join(place, `part${at}.ts`), text.join("\n"));
    return text;
  });
  const command = [process.execPath, join(root, "test/node_modules/.bin/tsc"), "--pretty", "false", "-p", place];
  const { stdout, exitCode } = Bun.spawnSync(command, { cwd: place, stderr: "inherit" });
  const said = own.map(() => new Map<string, string>());
  const output = stdout.toString();
  // One example of each mistake: all answers of an API usually make the same one.
  for (const [, part, line, why = ""] of output.matchAll(/^part(\d+)\.ts\((\d+),\d+\): error (.*(?:\n .*)*)$/gm)) {
    const document = lines[Number(part)]?.[Number(line) - 1] ?? "";
    if (!said[Number(part)]!.has(why)) said[Number(part)]!.set(why, document.slice(0, 2000));
  }
  if (exitCode !== 0 && said.every(({ size }) => size === 0)) throw new Error(`the compiler failed: ${output}`);
  return new Map(own.map(({ name }, at) => [name, [...said[at]!].map(([why, document]) => `${why} in ${document}`)]));
}

function declared(name: string, { form, value }: TrafficItem): string {
  return `const ${name} = ${JSON.stringify(value)} satisfies ${typeNames[form]};`;
}

/** The same with a field that nobody has heard of, on the first level and on the second: a type that takes these proves nothing. */
function odd({ form, value }: TrafficItem): readonly TrafficItem[] {
  const document = value as Readonly<Record<string, unknown>>;
  const lists = Object.entries(document).filter(([key]) => elements.has(key));
  return [
    { form, value: { ...document, unheard_of: 1 } },
    ...lists.map(([key, list]) => ({ form, value: { ...document, [key]: [{ ...(list as readonly object[])[0], unheard_of: 1 }] } })),
  ];
}

const elements: ReadonlySet<string> = new Set(["messages", "contents", "choices", "candidates"]);

describe("what the gateway writes has the type that its provider declares:", () => {
  for (const [name, { packages }] of [
    ...Object.entries(requestTypes).map(([dialect, types]) => [`requests in ${dialect}`, types] as const),
    ...Object.entries(answerTypes).map(([surface, types]) => [`answers in ${surface}`, types] as const),
    ...Object.entries(otherTypes),
  ]) {
    // `npm run test:types` installs the packages that do not come with those of all tests.
    test.skipIf(!isInstalled(packages))(name, () => {
      expect(checked.find((one) => one.name === name)?.items.length).toBeGreaterThan(name in otherTypes ? 0 : 5);
      expect(mistakes.get(name)).toEqual([]);
    });
  }
});
