import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { FencedBlock } from "../../scripts/site/fences.ts";
import { parseArguments } from "../../src/cli/arguments.ts";
import { loadConfig } from "../../src/config/load.ts";
import { blocksOf } from "../support/guides.ts";

/** What all pages show is read by the program itself: configurations by their reader, commands by their parser. */

setDefaultTimeout(60_000);

const root = resolve(import.meta.dir, "../..");
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name))
    .toSorted(),
];

interface Snippet {
  readonly place: string;
  readonly block: FencedBlock;
}

function snippets(language: string): readonly Snippet[] {
  return pages.flatMap((page) =>
    blocksOf(page)
      .filter((block) => block.language === language)
      .map((block) => ({ place: `${page}:${block.line}`, block })),
  );
}

describe("a configuration in the documentation", () => {
  /** Other programs' files have another name, in their title or their first line. */
  function isOurs({ title, text }: FencedBlock): boolean {
    const name = title ?? /^# (\S+\.ya?ml)$/m.exec(text)?.[1] ?? "sluice.yaml";
    return name === "sluice.yaml";
  }

  const ours = snippets("yaml").filter(({ block }) => isOurs(block));

  /** A part of a file is completed by what every file needs. */
  function completed(text: string): string {
    return /^channels:/m.test(text) ? text : `${text}\nchannels:\n  - { name: local, provider: ollama }\n`;
  }

  /** Each variable that has no default gets a value of its kind. */
  function variablesIn(text: string): Record<string, string> {
    const names = [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name = ""]) => name);
    return Object.fromEntries(names.map((name) => [name, valueOf(name)]));
  }

  const addresses: Readonly<Record<string, string>> = {
    STORE_URL: "postgres://user:password@db:5432/sluice",
    STATE_URL: "redis://state:6379",
  };

  function valueOf(name: string): string {
    if (name.endsWith("_URL")) return addresses[name] ?? "https://llm.example.com/v1";
    return name.endsWith("_ID") ? "01234567-89ab-cdef-0123-456789abcdef" : `${name}-0123456789abcdef0123456789`;
  }

  const localModels = [{ id: "embedded/stories-15m", upstream: "stories-15m", operation: "chat", description: "tells stories" }] as const;

  test.each(ours.map(({ place, block }) => [place, block] as const))("is accepted: %s", async (_, { text }) => {
    const whole = completed(text);
    const source = { path: "sluice.yaml", text: whole, env: variablesIn(whole), nofile: 1024, localModels: () => localModels };
    const read = await loadConfig(source);
    // The files of secrets and certificates that it names are the reader's own.
    const problems = read.ok ? [] : read.problems.filter(({ path }) => !/\.api_key_file$|^tls\.\w+_file$/.test(path));
    expect(problems).toEqual([]);
  });

  test("is found on several pages", () => {
    expect(ours.length).toBeGreaterThan(10);
  });
});

describe("a command in the documentation", () => {
  const commands = snippets("sh").flatMap(({ place, block }) =>
    commandsIn(block.text).map((args) => [place, `sluice ${args.join(" ")}`, args] as const),
  );

  test.each(commands)("is one that there is: %s: %s", (_place, _command, args) => {
    const invocation = parseArguments(args, "1.2.3");
    expect(invocation.command === "usage-error" ? invocation.text : "").toBe("");
  });

  test("is found on several pages", () => {
    expect(commands.length).toBeGreaterThan(60);
  });

  test("is told apart from what stands around it", () => {
    expect(
      commandsIn(
        "A=$(sluice keys create ci) && sluice usage --by 'key,model' > a.csv # sluice no\n! sluice check \\\n  a.yaml | cat\nsudo env A=b sluice doctor\n",
      ),
    ).toEqual([["keys", "create", "ci"], ["usage", "--by", "key,model"], ["check", "a.yaml"], ["doctor"]]);
  });
});

test.skipIf(Bun.which("python3") === null)(
  "programs in the documentation that are written in Python can be compiled (skipped without python3)",
  async () => {
    const programs = snippets("python").map(({ place, block }) => [place, block.text]);
    expect(programs.length).toBeGreaterThan(4);
    const compile = "import json, sys\nfor place, text in json.load(sys.stdin): compile(text, place, 'exec')";
    const python = Bun.spawn(["python3", "-c", compile], { stdin: Buffer.from(JSON.stringify(programs)), stderr: "pipe" });
    expect([await new Response(python.stderr).text(), await python.exited]).toEqual(["", 0]);
  },
);

/** The arguments of each `sluice` in shell commands, as far as the pages go: quotes, comments, pipes and redirections. */
function commandsIn(text: string): readonly (readonly string[])[] {
  return text
    .replaceAll(/\\\n\s*/g, " ")
    .replaceAll("npm run --silent sluice --", "sluice")
    .split("\n")
    .flatMap((line) => [
      ...line
        .replace(/(?:^|\s)#.*$/, "")
        .matchAll(/(?:^|[;&|(!]|\$\() *(?:sudo env )?((?:\w+=\S+ +)*)sluice ((?:'[^']*'|"[^"]*"|[^;&|)<>'"])*)/g),
    ])
    .map(([, , args = ""]) =>
      [...args.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, single, double, plain]) => single ?? double ?? plain ?? ""),
    );
}
