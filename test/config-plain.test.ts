import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { readCarefully } from "../src/config/careful-yaml.ts";
import { readDocument } from "../src/config/document.ts";
import { readPlainYaml } from "../src/config/plain-yaml.ts";
import type { Path } from "../src/config/problem.ts";
import { loadConfig, loadConfigInTurns } from "../src/config/load.ts";
import { normalise } from "../src/config/normalise.ts";
import { oneAtATime } from "../src/config/one-at-a-time.ts";
import { inOneGo, inTurns, type Turns } from "../src/config/turns.ts";
import { eventually } from "./support/eventually.ts";
import { startGateway } from "./support/gateway.ts";

const environment = { NAME: "from the environment", EMPTY: "" };

/** Properties take some seconds; a busy machine may need many times that. */
const propertyMs = 120_000;

function plainly(text: string): { readonly value: unknown } | null {
  const read = inOneGo(readPlainYaml(text, environment, 1));
  return "stoppedAt" in read ? null : read;
}

/** What the careful reader has to say, and that the quick one, where it says anything, says the same of values and lines. */
function agreed(text: string): void {
  const plain = plainly(text);
  if (plain === null) return;
  const careful = readCarefully(text, environment);
  if ("problems" in careful) throw new Error(`read plainly, though ${JSON.stringify(careful.problems)}: ${JSON.stringify(text)}`);
  if (!same(plain.value, careful.value)) {
    throw new Error(`${JSON.stringify(plain.value)} is not ${JSON.stringify(careful.value)}: ${JSON.stringify(text)}`);
  }
  const document = inOneGo(readDocument(text, environment));
  if ("problems" in document) throw new Error("read plainly, and then not");
  const paths = pathsIn(careful.value).flatMap((path) => [path, [...path, "absent"], [...path, 99]]);
  for (const some of [paths, paths.filter(({ length }) => length <= 1)]) {
    const lineOf = inOneGo(document.lines(some));
    for (const path of some) {
      if (lineOf(path) !== careful.lineOf(path)) {
        throw new Error(`${JSON.stringify(path)} on ${lineOf(path)}, not ${careful.lineOf(path)}: ${JSON.stringify(text)}`);
      }
    }
  }
}

/** Equal in every bit: also the order of members, which the version of a configuration is made of, and the sign of zero. */
function same(one: unknown, other: unknown): boolean {
  return Bun.deepEquals(one, other, true) && JSON.stringify(one) === JSON.stringify(other);
}

function pathsIn(value: unknown): Path[] {
  if (typeof value !== "object" || value === null) return [[]];
  const members: readonly (readonly [string | number, unknown])[] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [[], ...members.flatMap(([step, inner]) => pathsIn(inner).map((path) => [step, ...path]))];
}

/* Plain documents: any values, in any plain way to write them. */

const word = fc.constantFrom(
  ..."name key models limits a b gpt-4o whisper-1 300ms 64MiB 1h 127.0.0.1:4400 http://up.example.com/v1 2027-01-01 ./data ../data".split(
    " ",
  ),
  ..."on off yes no y n x=y a#b a/b /etc/file a:b ~x _ -x tru truer nul nil 1a 0b1 1_000 12:30 1.2.3 sk-0123 $home a$b a,b ü 日本 😀".split(
    " ",
  ),
  "two words",
  "a  b",
  "it's",
  'say "x"',
);
const odd = fc.constantFrom(
  "",
  " ",
  " padded ",
  "#c",
  "- x",
  "a: b",
  "x #y",
  "[a]",
  "{b",
  "&a",
  "*a",
  "!t",
  "|",
  ">",
  "?",
  "@a",
  "`",
  "%",
  ",",
);
const looks = fc.constantFrom(
  "true",
  "False",
  "null",
  "~",
  "1",
  "0",
  "-1",
  "1.5",
  "0x1F",
  "0o17",
  "1e3",
  ".inf",
  ".nan",
  "007",
  "+1",
  "1.",
  ".5",
);
const anyText = fc
  .oneof(word, odd, looks, fc.string({ maxLength: 12, unit: "grapheme" }), fc.string({ maxLength: 8 }))
  // These are left to the careful reader.
  .filter((text) => !/[\x7f-\x9f\u2028\u2029\ufeff]|\$\{/.test(text));
const number = fc.oneof(fc.nat(), fc.constantFrom(0, 1.5, 0.15, 200_000, 123_456_789_012_345, 0.000001));
const scalar = fc.oneof(word, anyText, number, fc.boolean(), fc.constant(null));
const keyName = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(..."name key models limits rpm a b c true null 12 1.5 gpt-4o on two".split(" ")) },
  { weight: 1, arbitrary: anyText.filter((text) => text !== "__proto__" && !/\p{C}/u.test(text)) },
);

type Value = string | number | boolean | null | readonly Value[] | { readonly [key: string]: Value };

const { tree } = fc.letrec<{ tree: Value }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.array(tie("tree"), { maxLength: 4 }),
    fc.dictionary(keyName, tie("tree"), { maxKeys: 4, noNullPrototype: true }),
  ),
}));
const rootGroup = fc.dictionary(keyName, tree, { minKeys: 1, maxKeys: 5, noNullPrototype: true });

/** Chooses between ways to write, one after the other, from a list of numbers. */
class Style {
  private at = 0;

  constructor(private readonly choices: readonly number[]) {}

  of(count: number): number {
    this.at += 1;
    return (this.choices[this.at % this.choices.length] ?? 0) % count;
  }
}

const style = fc.array(fc.nat(1000), { minLength: 5, maxLength: 40 });

function comment(choose: Style): string {
  return ["", "", "", " # a comment: with [ everything \t", "   "][choose.of(5)] ?? "";
}

/** A text as it may stand without quotes, if it may. */
function isBare(text: string, inFlow: boolean): boolean {
  if (!/^[A-Za-z0-9_/$(ü日]/.test(text) && !/^\.\.?\/|^-[a-z]/.test(text)) return false;
  if (inFlow && (/[,[\]{}]/.test(text) || text.startsWith("."))) return false;
  return text === text.trim() && !/: |:$| #|[\t\n]|\p{C}/u.test(text) && !isWord(text) && !/^[-+.]?\d[\d.]*$|^0[xo]|^\d[\d.]*e/i.test(text);
}

function isWord(text: string): boolean {
  return /^(true|false|null)$/i.test(text);
}

function writeText(text: string, inFlow: boolean, choose: Style): string {
  const ways = [JSON.stringify(text)];
  if (!/\p{C}/u.test(text)) ways.push(`'${text.replaceAll("'", "''")}'`);
  if (isBare(text, inFlow)) ways.push(text, text);
  return ways[choose.of(ways.length)] ?? "";
}

function writeScalar(value: string | number | boolean | null, inFlow: boolean, choose: Style): string {
  if (typeof value === "string") return writeText(value, inFlow, choose);
  if (value === null) return ["null", "~", "Null"][choose.of(3)] ?? "";
  return typeof value === "number" ? plainDecimal(value) : String(value);
}

function plainDecimal(value: number): string {
  return /e/.test(String(value)) ? value.toFixed(15) : String(value);
}

function isScalar(value: Value): value is string | number | boolean | null {
  return typeof value !== "object" || value === null;
}

function writeFlow(value: Value, choose: Style, pad: string): string {
  if (isScalar(value)) return writeScalar(value, true, choose);
  const gap = (): string => ["", " ", `\n${pad}`, ` # c\n${pad}  `][choose.of(4)] ?? "";
  const join = (open: string, close: string, parts: readonly string[]): string => {
    const last = parts.length > 0 && choose.of(4) === 0 ? "," : "";
    return `${open}${gap()}${parts.map((part, at) => (at === 0 ? part : `,${gap()}${part}`)).join("")}${last}${gap()}${close}`;
  };
  if (Array.isArray(value))
    return join(
      "[",
      "]",
      (value as readonly Value[]).map((item) => writeFlow(item, choose, pad)),
    );
  const members = Object.entries(value).map(([key, item]) => {
    const quoted = `${JSON.stringify(key)}:${["", " "][choose.of(2)]}`;
    const name = isBareKey(key) && choose.of(2) === 0 && !/[,[\]{}]/.test(key) ? `${key}: ` : quoted;
    return `${name}${writeFlow(item, choose, pad)}`;
  });
  return join("{", "}", members);
}

function isBareKey(key: string): boolean {
  return isBare(key, false) && !/^[.-]/.test(key);
}

function writeBlock(value: Value, indent: number, choose: Style): string {
  const pad = " ".repeat(indent);
  const inBrackets = (item: Value): boolean => choose.of(3) === 0 || isScalar(item) || Object.keys(item).length === 0;
  const line = (item: Value): string =>
    `${isScalar(item) ? writeScalar(item, false, choose) : writeFlow(item, choose, `${pad}      `)}${comment(choose)}\n`;
  const blank = (): string => ["", "", "", "\n", "   # alone\n", "#\n", "   \n"][choose.of(7)] ?? "";
  if (Array.isArray(value)) {
    return (value as readonly Value[])
      .map((item) => {
        const dash = `${pad}-${" ".repeat(1 + choose.of(3))}`;
        const grouped = !isScalar(item) && !Array.isArray(item) && Object.keys(item).length > 0 && choose.of(3) > 0;
        if (!grouped) return `${blank()}${dash}${line(item)}`;
        return `${blank()}${dash}${writeBlock(item, dash.length, choose).slice(dash.length)}`;
      })
      .join("");
  }
  return Object.entries(value as { readonly [key: string]: Value })
    .map(([key, item], at) => {
      const name = `${pad}${isBareKey(key) ? key : writeText(key, true, choose).replace(/^[^"'].*$/, JSON.stringify(key))}:`;
      const before = at === 0 ? "" : blank();
      if (item === null && choose.of(2) === 0) return `${before}${name}${comment(choose)}\n`;
      if (inBrackets(item)) return `${before}${name}${" ".repeat(1 + choose.of(2))}${line(item)}`;
      const deeper = Array.isArray(item) ? indent + choose.of(4) : indent + 1 + choose.of(4);
      return `${before}${name}${comment(choose)}\n${blank()}${writeBlock(item, deeper, choose)}`;
    })
    .join("");
}

describe("the quick reader", () => {
  test(
    "reads what is plainly written, in every plain way to write it, as the careful one does",
    () => {
      fc.assert(
        fc.property(rootGroup, style, (value, choices) => {
          const choose = new Style(choices);
          const head = ["", "---\n", "# head\n\n", "# head\n--- # here\n"][choose.of(4)] ?? "";
          const text = choose.of(4) === 0 ? `${head}${writeFlow(value, choose, "")}\n` : `${head}${writeBlock(value, 0, choose)}`;
          const plain = plainly(text);
          if (plain === null) throw new Error(`not read plainly: ${JSON.stringify(text)}`);
          if (!same(plain.value, value)) throw new Error(`not what was written: ${JSON.stringify(text)}`);
          agreed(text);
        }),
        { numRuns: 250 },
      );
    },
    propertyMs,
  );

  test(
    "agrees with the careful one on any pieces of YAML put together",
    () => {
      fc.assert(
        fc.property(soup, (text) => agreed(text)),
        { numRuns: 2000 },
      );
    },
    propertyMs,
  );

  test.each(surroundings)(
    "agrees with the careful one on everything that can be made of a few pieces, in %j",
    (before, after, alphabet) => {
      let read = 0;
      const extend = (text: string, left: number): void => {
        if (plainly(`${before}${text}${after}`) !== null) read += 1;
        agreed(`${before}${text}${after}`);
        if (left > 0) for (const next of alphabet) extend(`${text}${next}`, left - 1);
      };
      extend("", 3);
      expect(read).toBeGreaterThan(20);
    },
    propertyMs,
  );

  test.each([
    ["a value that stands for another", "a: &x 1\nb: *x\n"],
    ["a tag", "a: !!str 1\n"],
    ["a merge", "a: { <<: { b: 1 } }\n"],
    ["a text over several lines", "a: |\n  b\n  c\n"],
    ["a text that goes on in the next line", "a: b\n  c\n"],
    ["a quoted text that does", 'a: "b\n  c"\n'],
    ["a tab", "a:\tb\n"],
    ["a byte order mark", "\ufeffa: b\n"],
    ["a second document", "a: b\n---\nc: d\n"],
    ["a directive", "%YAML 1.1\n---\na: yes\n"],
    ["an empty entry", "a:\n  -\n  - b\n"],
    ["a list in a list", "a:\n  - - b\n"],
    ["a question mark", "? a\n: b\n"],
    ["an octal number", "a: 0o17\n"],
    ["a number with a leading zero", "a: 017\n"],
    ["a number with an exponent", "a: 1e3\n"],
    ["a number beyond what is exact", "a: 12345678901234567890\n"],
    ["infinity", "a: .inf\n"],
    ["a setting that is given twice", "a: 1\na: 2\n"],
    ["one that is given twice in braces", '{"a": 1, "a": 2}'],
    ["the name of a prototype", "__proto__: 1\n"],
    ["a variable that is not set", "a: ${ABSENT}\n"],
    ["a bare variable in brackets", "a: [${NAME}]\n"],
    ["nesting beyond any setting", `a: ${"[".repeat(20)}${"]".repeat(20)}\n`],
    ["a text instead of settings", "hello\n"],
    ["a list instead of settings", "- a\n"],
    ["nothing", "# only a comment\n"],
  ])("leaves %s to the careful one", (_, text) => {
    expect(plainly(text)).toBeNull();
  });

  test("takes the example, and a file with the line ends of another system, and tells the same lines", () => {
    const example = readFileSync(resolve(import.meta.dir, "../examples/sluice.yaml"), "utf8");
    const everything = { OPENAI_API_KEY: "sk-x", APP_KEY: "client-key-0123456789" };
    expect(inOneGo(readPlainYaml(example.replaceAll(/\$\{\w+\}/g, "x"), everything, 1))).not.toHaveProperty("stoppedAt");
    const windows = "a: 1\r\nb:\r\n  - c: x # y\r\n    d: [1,\r\n      2]\r\n";
    const document = inOneGo(readDocument(windows, environment));
    const careful = readCarefully(windows, environment);
    if ("problems" in document || "problems" in careful) throw new Error("not read");
    expect(document.value).toEqual(careful.value);
    const lineOf = inOneGo(document.lines(pathsIn(careful.value)));
    for (const path of pathsIn(careful.value)) expect(lineOf(path)).toBe(careful.lineOf(path));
  });
});

const surroundings: readonly (readonly [string, string, readonly string[]])[] = [
  ["", "", ["a: 1\n", "b:\n", "  ", " ", "- ", "c", "[x,\n", "]\n", "{y: z\n", "}\n", "# k\n", "\n", "d: ", "---\n"]],
  ["a: ", "\n", ["a", ":", " ", "\n", "-", "[", ",", "]", '"', "'", "#", "{", "}", "\\"]],
  ["a: ", "\n", ["0", "1", "x", "o", "-", "+", ".", "e", "E", "_", "~", "inf", "nan", "null", "True"]],
  ["a:\n  - b:", "\n", ["a: ", "b", "\n", "  ", "- ", "c:", "[", "]", "#", " ", "    ", "d: e"]],
  ["a:\n  - b: [", "]\n", ["k", ",", "]", "[", "{", "}", "\n   ", "\n  ", "\n     ", " ", "#c", "\n", "k: v", '"k":']],
  ['{"a":', "}\n", ['"k"', ":", ",", "[", "]", "{", "}", "\n", " ", "1", "k", "#", "---", "..."]],
];

/* What is large is read in turns. */

function bigFile(keys: number): string {
  const entries = Array.from({ length: keys }, (_, at) => `  - name: key-${at}\n    key: client-key-0123456789-${at}\n`);
  return `keys:\n${entries.join("")}channels:\n  - name: up\n    base_url: https://up.example.com/v1\n    models: [m]\n`;
}

const source = { path: null, env: environment, nofile: 20_000, nowMs: Date.parse("2026-11-15") };

function turnsOf(turns: Turns<unknown>): number {
  let count = 1;
  while (turns.next().done !== true) count += 1;
  return count;
}

describe("a large file", () => {
  test("is read, checked and completed in many small turns", () => {
    const text = bigFile(10_000);
    const document = inOneGo(readDocument(text, environment));
    if ("problems" in document) throw new Error("not read");
    const around = { ...source, readSecretFile: () => null, localModels: () => [] };
    expect(turnsOf(readDocument(text, environment))).toBeGreaterThan(75);
    expect(turnsOf(document.lines([["keys", 0, "name"]]))).toBeGreaterThan(75);
    // Twice a turn for every 32 keys: when they are checked, and when they are made complete.
    expect(turnsOf(normalise(document, around))).toBeGreaterThan(600);
  });

  test.each([
    ["a good one", bigFile(300)],
    ["one with a warning", `listen: 0.0.0.0:4400\n${bigFile(300)}`],
    ["one with an unknown setting", `${bigFile(300)}    wieght: 2\n`],
    ["one with a key that is too short", bigFile(300).replace("client-key-0123456789-77\n", "short\n")],
    ["one with a key that is given twice", bigFile(300).replace("client-key-0123456789-77\n", "client-key-0123456789-78\n")],
    ["one with a list in place of a text", bigFile(300).replace("name: key-5\n", "name: [key-5]\n")],
    ["one that is no YAML", `${bigFile(300)}  [\n`],
    ["one with a variable that is not set", `${bigFile(300)}    api_key: \${ABSENT}\n`],
    ["one that is a text", "hello"],
    ["one for the careful reader", `${bigFile(3000)}expose: &all all\n`],
    ["one for it with a warning", `listen: &here 0.0.0.0:4400\n${bigFile(3000)}`],
    ["one for it with a mistake", `listen: &here 0.0.0.0:4400\n${bigFile(3000)}    wieght: 2\n`],
    ["one for it with an expired key", `expose: &all all\n${bigFile(3000).replace("-99\n", "-99\n    expires: 2020-01-01\n")}`],
    ["a large one that is no YAML", `${bigFile(3000)}  [\n`],
    ["a large one with a variable that is not set", `${bigFile(3000)}    api_key: \${ABSENT}\n`],
    ["one whose keys are a text", "keys: hello\n"],
  ])("gives the same in turns and in one go: %s", async (_, text) => {
    expect(await loadConfigInTurns({ ...source, text })).toEqual(loadConfig({ ...source, text }));
  });

  test("is read here where the thread that should read it dies", async () => {
    const text = `${bigFile(3000)}expose: &all all\n`;
    const document = await inTurns(readDocument(text, environment, () => Promise.resolve(null)));
    const careful = readCarefully(text, environment);
    if ("problems" in document || "problems" in careful) throw new Error("not read");
    expect(document.value).toEqual(careful.value);
    expect(inOneGo(document.lines([["expose"]]))(["expose"])).toBe(careful.lineOf(["expose"]));
  });

  test.each([
    ["an anchor", "expose: &all all\n"],
    ["a variable that is not set", "expose: ${ABSENT}\n"],
    ["a bracket that is not closed", "expose: [\n"],
    ["a setting that is given twice", "keys: []\n"],
  ])("of more than a mebibyte is not given to the careful reader for %s, and its line and the mend are named", async (_, last) => {
    const plain = bigFile(20_000);
    expect(plain.length).toBeGreaterThan(1024 * 1024);
    let asked = 0;
    const elsewhere = (): Promise<null> => {
      asked += 1;
      return Promise.resolve(null);
    };
    const read = await inTurns(readDocument(plain + last, environment, elsewhere));
    if (!("problems" in read)) throw new Error("read");
    expect(asked).toBe(0);
    expect(read.problems).toHaveLength(1);
    const told = [plain.split("\n").length, plain.split("\n").length + 1];
    expect(told).toContain(read.problems[0]?.line ?? 0);
    expect(read.problems[0]?.reason).toContain("1 MiB");
    expect(read.problems[0]?.mend).toContain("sluice keys create");
    // What is plainly written may be as large as before.
    expect(inOneGo(readDocument(`${plain}expose: all\n`, environment))).not.toHaveProperty("problems");
  });

  test("has its mistakes named with the lines that the careful reader tells", () => {
    // An anchor makes the same file one for the careful reader.
    const wrong = bigFile(50).replace("name: key-40\n", "name: key 40\n").replace("key: client-key-0123456789-7\n", "kye: x\n");
    const careful = `${wrong}expose: &all all\n`;
    expect(plainly(wrong)).not.toBeNull();
    expect(plainly(careful)).toBeNull();
    const told = loadConfig({ ...source, text: `${wrong}expose: all\n` });
    expect(told).toEqual(loadConfig({ ...source, text: careful }));
    expect(told.ok ? [] : told.problems.map(({ line }) => line)).toEqual([16, 17, 82]);
  });
});

describe("work that must not overlap itself", () => {
  test("runs once more for all who asked meanwhile, also when it failed", async () => {
    const ends: ((failed: boolean) => void)[] = [];
    const ask = oneAtATime(async () => {
      if (await new Promise<boolean>((end) => ends.push(end))) throw new Error("expected");
    });
    const first = ask();
    await Promise.all([ask(), ask()]);
    expect(ends.length).toBe(1);
    ends[0]?.(true);
    expect(await first.catch(String)).toBe("Error: expected");
    expect(ends.length).toBe(2);
    ends[1]?.(false);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ends.length).toBe(2);
    const last = ask();
    expect(ends.length).toBe(3);
    ends[2]?.(false);
    await last;
    expect(ends.length).toBe(3);
  });
});

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

const piece = fc.oneof(
  fc.constantFrom(..."a b c name: key: x: \"q\" 'q' \"k\": 'k': [ ] { } , : - # ? | > & * ! % @ ` ~ = < << \\ \" '".split(" ")),
  fc.constantFrom(
    " ",
    " ",
    " ",
    "  ",
    "\n",
    "\n",
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n  - ",
    ": ",
    ", ",
    " # c",
    "\t",
    "\r\n",
    "\r",
    ",\n",
    ":\n",
  ),
  fc.constantFrom("---", "...", "--- ", "\n---\n", "\n...\n", "%YAML 1.1\n", "&a ", "*a", "!!str ", "!!int ", "!x ", "|\n", ">-\n", "? "),
  fc.constantFrom(
    ..."true no 1 -1 1.5 0x1F 0o7 017 1e3 1e400 .inf .nan 123456789012345678 -0 +1 1. .5 ~ null 2027-01-01 1_0 0b1".split(" "),
  ),
  fc.constantFrom(
    "${NAME}",
    "${ABSENT}",
    "${ABSENT:-d}",
    "$${x}",
    "${",
    "__proto__: ",
    "constructor: ",
    "\ufeff",
    "\u2028",
    "\u0085",
    "\u00a0",
    "ü",
  ),
  fc.constantFrom(
    '"a\\nb"',
    '"\\x41"',
    '"\\u00e9"',
    '"\\ud83d\\ude00"',
    '"\\ud800"',
    "'it''s'",
    "''",
    '""',
    '"a\nb"',
    "'a\n b'",
    '"\\/"',
    '"\\e"',
  ),
  fc.string({ maxLength: 3 }),
);
const pieces = fc.array(piece, { maxLength: 14 }).map((parts) => parts.join(""));
/** Alone most of it would be wrong at once: beside something right it gets further. */
const soup = fc.oneof(
  pieces,
  pieces.map((text) => `a: ${text}`),
  pieces.map((text) => `a:\n  - ${text}`),
  pieces.map((text) => `a:\n  - b: ${text}\n    c: d\n`),
  pieces.map((text) => `a: [${text}]\nb: c\n`),
  pieces.map((text) => `a: {${text}}\nb: c\n`),
  pieces.map((text) => `{"a": [${text}], "b": {}}`),
  pieces.map((text) => `a:\n  b: ${text}\nc: d\n`),
  fc.tuple(rootGroup, style, fc.nat(), piece).map(([value, choices, at, inserted]) => {
    const text = writeBlock(value, 0, new Style(choices));
    const place = at % (text.length + 1);
    return text.slice(0, place) + inserted + text.slice(place);
  }),
  fc.tuple(rootGroup, style, fc.nat(), fc.nat(3)).map(([value, choices, at, removed]) => {
    const text = writeBlock(value, 0, new Style(choices));
    const place = at % (text.length + 1);
    return text.slice(0, place) + text.slice(place + removed);
  }),
);
