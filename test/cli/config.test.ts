// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { root } from "../../scripts/source-tree.ts";
import { exitCodes } from "../../src/cli/command-error.ts";
import { defaultGroup } from "../../src/keys/stored-group.ts";
import type { ResourceChange } from "../../src/manage/resource-file/desired-resources.ts";
import { startAdmin } from "../support/admin.ts";
import { CommandLine, type Outcome } from "../support/command-line.ts";
import { refusedUrl } from "../support/refused-port.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const env = { MAIN_KEY: "sk-upstream-0123456789-wxyz", LAPTOP: "client-key-0123456789-abcdefghijkl" };

const resources = `channels:
  - name: main
    base_url: https://api.example.com/v1
    api_key: \${MAIN_KEY}
    models: [a]
keys:
  - { name: laptop, key: "\${LAPTOP}", limits: { rpm: 60 } }
prices:
  - { model: a, input: 0.5 }
`;

interface Differences {
  readonly applied: boolean;
  readonly changes: readonly ResourceChange[];
}

function write(cli: CommandLine, text: string | Buffer, name = "resources.yaml"): string {
  const file = join(cli.folder, name);
  writeFileSync(file, text);
  return file;
}

describe("sluice config", () => {
  test("diff and apply say what would change and what did, in words, JSON and exit codes", async () => {
    const cli = new CommandLine();
    const file = write(cli, resources);
    const before = await cli.here(["config", "diff", file], { env });
    expect(before.code).toBe(2);
    expect(before.out.trim().split("\n")).toEqual([
      '+ channel main (line 2): create: base_url https://api.example.com/v1, models ["a"], api_keys ["wxyz"]',
      "+ price a (line 9): create: input 0.5, model a",
      '+ key laptop (line 7): create: limits {"rpm":60}, name laptop, key ijkl',
    ]);
    expect(before.err).toBe(`note: there was no store in ${cli.dataDir}: created a new one.\n3 changes to make.\n`);

    const rehearsed = await cli.here(["config", "apply", file, "--dry-run", "--json"], { env });
    const planned = JSON.parse(rehearsed.out) as Differences;
    expect([rehearsed.code, planned.applied, planned.changes.length]).toEqual([2, false, 3]);
    expect((await cli.here(["config", "apply", file], { env })).code).toBe(0);
    expect(await cli.here(["config", "diff", file, "--prune"], { env })).toMatchObject({
      code: 0,
      out: "",
      err: expect.stringContaining("Nothing differs"),
    });
    expect((await cli.here(["config", "apply", file, "--json"], { env })).out).toContain('"changes": []');

    const changed = write(cli, resources.replace("rpm: 60", "rpm: 6").replace("models: [a]", "models: [a]\n    tier: 2"));
    const { code, out } = await cli.here(["config", "diff", changed, "--json"], { env });
    expect([code, (JSON.parse(out) as Differences).changes]).toEqual([
      2,
      [
        { what: "channel", name: "main", action: "change", fields: [{ field: "tier", from: null, to: 2 }], line: 2 },
        { what: "key", name: "laptop", action: "change", fields: [{ field: "limits", from: { rpm: 60 }, to: { rpm: 6 } }], line: 8 },
      ],
    ]);
    for (const text of [before.out, rehearsed.out, out]) expect(text).not.toMatch(/sk-upstream|client-key/);
  });

  test("a resource file in another encoding than UTF-8 is refused with its line, and its names are not stored as question marks", async () => {
    const cli = new CommandLine();
    const text = "groups:\n  - { name: Büro }\n  - { name: Küche }\n";
    const [file, latin] = [write(cli, text, "utf8.yaml"), write(cli, Buffer.from(text, "latin1"), "latin1.yaml")];
    expect(await cli.here(["config", "apply", latin], { env })).toMatchObject({
      code: 64,
      err: expect.stringMatching(/latin1\.yaml:2: this is not UTF-8 text\n +save the file in the encoding UTF-8/),
    });
    const wide = write(cli, Buffer.from(`\ufeff${text}`, "utf16le"), "utf16.yaml");
    expect((await cli.here(["config", "diff", wide], { env })).err).toContain("utf16.yaml:1: this is not UTF-8 text");
    expect(await cli.here(["config", "apply", file], { env })).toMatchObject({ code: 0, out: expect.stringContaining("Büro") });
  });

  test("diff and apply end with 64, and change nothing, if the file cannot be used, and with 1 if a change is refused", async () => {
    const cli = new CommandLine({ keys: [{ name: "filed", key: "file-key-0123456789abcdef" }] });
    const wrong = async (text: string, expected = 64): Promise<string> => {
      const { code, out, err } = await cli.here(["config", "apply", write(cli, text)], { env });
      expect([code, out]).toEqual([expected, ""]);
      return err;
    };
    expect(await wrong("channels: [{ name: a, colour: red }]")).toContain("resources.yaml:1: channels[0].colour: unknown setting");
    expect(await wrong("keys:\n  - { name: a, key: '${MISSING}' }")).toContain(
      "resources.yaml:2: keys[0].key: the environment variable MISSING",
    );
    expect(await wrong(`# ${"x".repeat(1024 * 1024)}`)).toContain("the file is larger than 1 MiB");
    expect(await wrong("channels: [{ name: a, base_url: 'http://10.0.0.1/v1', models: [m] }]", 1)).toContain(
      "Line 1: channel a: base_url: This is a private address",
    );
    expect((await cli.here(["config", "apply", write(cli, "keys: [{ name: filed }]")], { env })).err).toMatch(
      /Key filed is defined in .*sluice\.yaml, line 1/,
    );
    expect(await cli.here(["config", "diff", join(cli.folder, "nowhere.yaml")], { env })).toMatchObject({
      code: 64,
      err: expect.stringContaining("there is no such file"),
    });
    expect(await cli.here(["audit", "--json"], { env })).toMatchObject({ out: "[]\n" });
  });

  test("export writes a file that makes the same store elsewhere, without a secret in it", async () => {
    const [first, second] = [new CommandLine(), new CommandLine()];
    await first.here(["config", "apply", write(first, resources)], { env });
    const exported = await first.here(["config", "export", "--key-variables"], { env });
    expect(exported.out).toStartWith("# yaml-language-server: $schema=./sluice-resources.schema.json\n");
    expect(exported.out).not.toMatch(/sk-upstream|client-key/);
    expect(exported.err).toContain("CHANNEL_MAIN_KEY: a key of channel main, ending in wxyz");
    const elsewhere = { CHANNEL_MAIN_KEY: env.MAIN_KEY, KEY_LAPTOP: env.LAPTOP };
    expect((await second.here(["config", "apply", write(second, exported.out)], { env: elsewhere })).code).toBe(0);
    for (const cli of [first, second])
      expect((await cli.here(["config", "diff", write(cli, exported.out), "--prune"], { env: elsewhere })).code).toBe(0);
    expect((await second.here(["config", "export", "--key-variables"])).out).toBe(exported.out);
    // The hashes are those of the store.
    const hashed = (await first.here(["config", "export"])).out;
    expect(hashed).not.toMatch(/sk-upstream|client-key/);
    expect((await first.here(["config", "diff", write(first, hashed), "--prune"], { env: elsewhere })).code).toBe(0);
    expect((await second.here(["config", "diff", write(second, hashed)], { env: elsewhere })).err).toContain("made by another store");
    expect(Object.keys(parse((await first.here(["config", "export", "--only", "prices"], { env })).out) as object)).toEqual(["prices"]);
  });

  test("explain, diff and apply take a variable from the file that NAME_FILE names", async () => {
    const cli = new CommandLine();
    const { MAIN_KEY, ...others } = env;
    writeFileSync(join(cli.folder, "main-key"), `${MAIN_KEY}\n`);
    const mounted = { ...others, MAIN_KEY_FILE: join(cli.folder, "main-key") };
    expect((await cli.here(["config", "apply", write(cli, resources)], { env: mounted })).code).toBe(0);
    expect((await cli.here(["config", "diff", write(cli, resources)], { env })).code).toBe(0);
    writeFileSync(
      cli.config,
      JSON.stringify({ data_dir: cli.dataDir, channels: [{ name: "own", provider: "openai", api_key: "${MAIN_KEY}" }] }),
    );
    const { out } = await cli.here(["config", "explain", "channels.own", "--no-defaults"], { env: mounted });
    expect(out).toMatch(/channels\.own\.api_key +\*{4}wxyz .* MAIN_KEY$/m);
  });

  test("explain shows where each value comes from, and which values of the store the file overrides", async () => {
    const cli = new CommandLine({ routing: { attempts: 2 } });
    expect((await cli.here(["config", "explain", "routing"])).out.split("\n")[1]).toMatch(/^routing\.attempts +2 +\S+sluice\.yaml:1$/);
    await cli.here(["config", "apply", write(cli, resources)], { env });
    const overridden = { channels: [{ name: "main", provider: "openai", api_key: "${MAIN_KEY}" }] };
    writeFileSync(cli.config, JSON.stringify({ admin: "off", data_dir: cli.dataDir, ...overridden }));
    const { out } = await cli.here(["config", "explain", "channels.main", "keys.laptop", "--no-defaults", "--json"], { env });
    const rows = JSON.parse(out) as readonly Readonly<Record<string, unknown>>[];
    expect(rows.map(({ path, value, origin, overridden_by: by }) => [path, value, origin, by])).toEqual([
      ["channels.main.name", "main", "file", null],
      ["channels.main.provider", "openai", "file", null],
      ["channels.main.api_key", "****wxyz", "environment", null],
      ["channels.main.base_url", "https://api.example.com/v1", "store", `${cli.config}, line 1`],
      ["channels.main.models", ["a"], "store", `${cli.config}, line 1`],
      ["channels.main.api_keys", ["****wxyz"], "store", `${cli.config}, line 1`],
      ["keys.laptop.name", "laptop", "store", null],
      ["keys.laptop.id", expect.any(String), "store", null],
      ["keys.laptop.key", "****ijkl", "store", null],
      ["keys.laptop.limits", { rpm: 60 }, "store", null],
    ]);
    // A key of the file with the same name is another one: the token of that in the store still works, and must not be called unused.
    const named = { groups: [{ name: "web" }], keys: [{ name: "laptop", key: "sk-another-one-0123456789abcdef" }] };
    writeFileSync(cli.config, JSON.stringify({ admin: "off", data_dir: cli.dataDir, ...named }));
    const ada = { kind: "cli", name: "ada" } as const;
    await cli.withStorage((storage) => storage.groups.create("grp_web000000001", { ...defaultGroup, name: "web" }, [], ada));
    const both = await cli.here(["config", "explain", "keys.laptop", "groups.web", "--no-defaults"], { env });
    expect(both.out.match(/^keys\.laptop\.key .*$/gm)).toEqual([
      expect.stringMatching(/\*{4}cdef +\S+sluice\.yaml:1$/) as string,
      expect.stringMatching(/\*{4}ijkl +store$/) as string,
    ]);
    expect(both.out).not.toContain("not used");
    expect(both.err).toMatch(/the store has another of this name \((\S+)\)\. Clients can use both; to end it: sluice keys revoke \1\n/);
    expect(both.err).toContain("the store has another of this name (grp_web000000001). Keys that were put into it stay there");
    expect(await cli.here(["config", "explain", "no.such"], { env })).toMatchObject({ code: 1, err: expect.stringContaining("no.such") });
  });

  test("explain creates no store, and schema prints what editors need", async () => {
    const cli = new CommandLine();
    expect((await cli.here(["config", "explain", "server.drain"])).err).toBe("");
    const { code, out } = await cli.run(["config", "schema"]);
    expect([code, (JSON.parse(out) as { title: string }).title]).toEqual([0, "The configuration of Sluice"]);
  });
});

/** What a script in CI can meet, and how the commands tell it. */
interface Situation {
  readonly what: string;
  readonly code: number;
  /** Said on standard error. */
  readonly words: string;
  /** The resource file that the store already says. */
  readonly applied?: string;
  /** The resource file that the command is given. */
  readonly text?: string;
  /** The configuration file. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly options?: readonly string[];
  /** The variables that name a gateway elsewhere: then the command does not work on the store. */
  readonly remote?: () => Promise<Readonly<Record<string, string>>>;
}

const oneGroup = "groups: [{ name: web }]";
const gateway = (url: string, token: string) => ({ SLUICE_ADMIN_URL: url, SLUICE_ADMIN_TOKEN: token });
const strangeToken = `sk-gwa_${"0".repeat(40)}`;

/** What a resource file can lead to. */
const findings: readonly Situation[] = [
  { what: "nothing differs", code: 0, words: "Nothing differs", applied: oneGroup },
  { what: "something differs", code: 2, words: "1 change to make." },
  {
    what: "a change is refused",
    code: 1,
    words: "Key filed is defined in ",
    text: "keys: [{ name: filed }]",
    config: { keys: [{ name: "filed", key: "file-key-0123456789abcdef" }] },
  },
  { what: "the resource file cannot be used", code: 64, words: "unknown setting", text: "groups: [{ name: web, colour: red }]" },
];

/** What ends a command before it has looked at a resource file. */
const obstacles: readonly Situation[] = [
  { what: "the arguments are wrong", code: 64, words: "unknown option '--colour'", options: ["--colour"] },
  { what: "the store cannot be reached", code: 69, words: "cannot be reached", config: { store: "postgres://127.0.0.1:1/sluice" } },
  {
    what: "the gateway elsewhere cannot be reached",
    code: 69,
    words: "No gateway can be reached at ",
    remote: async () => gateway(refusedUrl(), strangeToken),
  },
  {
    what: "the gateway elsewhere does not know the token",
    code: 77,
    words: "Incorrect or missing admin token",
    remote: async () => gateway((await startAdmin()).url, strangeToken),
  },
  {
    what: "the token is of the wrong role",
    code: 77,
    words: "This needs the role 'admin'",
    remote: async () => {
      const world = await startAdmin();
      const { authorization = "" } = await world.token("viewer");
      return gateway(world.url, authorization.replace("Bearer ", ""));
    },
  },
  {
    what: "the configuration has a mistake",
    code: 78,
    words: "at least 16 characters",
    config: { keys: [{ name: "short", key: "short" }] },
  },
];

describe("the exit codes for CI", () => {
  async function ended(command: string, { applied, text = oneGroup, config = {}, options = [], remote }: Situation): Promise<Outcome> {
    const cli = new CommandLine(config);
    if (applied !== undefined) expect((await cli.here(["config", "apply", write(cli, applied)])).code).toBe(0);
    const files = command === "export" ? [] : [write(cli, text)];
    return cli.run(["config", ...command.split(" "), ...files, ...options], { env: (await remote?.()) ?? {} });
  }

  /** Each command in a process of its own, and each on a store of its own. */
  async function allEnd(commands: readonly string[], situation: Situation): Promise<void> {
    const { code, words } = situation;
    const outcomes = await Promise.all(commands.map(async (command) => ({ command, ...(await ended(command, situation)) })));
    const out = code === 2 ? "+ group web (line 1): create: name web\n" : "";
    expect(outcomes).toEqual(commands.map((command) => ({ command, code, out, err: expect.stringContaining(words) as string })));
  }

  test.each(findings)("diff and apply --dry-run end with $code if $what", (situation) => allEnd(["diff", "apply --dry-run"], situation));

  test.each(obstacles)("diff, apply --dry-run, apply and export end with $code if $what", (situation) =>
    allEnd(["diff", "apply --dry-run", "apply", "export"], situation),
  );

  test("are in the table of docs/configuration-as-code.md, all of them and no other", () => {
    const page = readFileSync(join(root, "docs/configuration-as-code.md"), "utf8");
    const [, table = ""] = /\*\*Exit codes\*\* of `diff` and of `apply --dry-run`:\n\n((?:\|.*\n)+)/.exec(page) ?? [];
    const documented = [...table.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    // Nobody is asked for anything, so that nothing is interrupted.
    const { interrupt: _, ...ofErrors } = exitCodes;
    const byNumber = (a: number, b: number): number => a - b;
    expect(documented.toSorted(byNumber)).toEqual([0, 2, ...Object.values(ofErrors)].toSorted(byNumber));
    expect(new Set([...findings, ...obstacles].map(({ code }) => code))).toEqual(new Set(documented));
  });

  test("are 0 and 2 without an error, as the help of diff and apply says", async () => {
    for (const command of ["diff", "apply"]) {
      const { out } = await new CommandLine().run(["config", command, "--help"]);
      expect([command, out]).toEqual([
        command,
        expect.stringContaining("is 0 if nothing differs, 2 if something does, and another number"),
      ]);
    }
  });
});

test("the audit log is exported as JSON lines and as CSV, all of it", async () => {
  const cli = new CommandLine();
  await cli.withStorage(async ({ audit }) => {
    for (let at = 0; at < 250; at++) await audit.note("test.note", `=subject-${at}`, { from: 1, to: "a,b" }, { kind: "cli", name: "ada" });
  });
  const lines = (await cli.here(["audit", "--format", "jsonl"])).out.trimEnd().split("\n");
  expect([lines.length, JSON.parse(lines[249] ?? "")]).toEqual([
    250,
    expect.objectContaining({ action: "test.note", subject: "=subject-0" }),
  ]);
  const table = (await cli.here(["audit", "--format", "csv", "--limit", "201"])).out.trimEnd().split(/\r?\n/);
  expect(table[0]).toBe("id,done_at,actor_kind,actor,address,action,subject,detail,actor_issuer,actor_subject");
  expect([table.length, table[201]]).toEqual([
    202,
    expect.stringContaining(`,cli,ada,,test.note,'=subject-49,"{""from"":1,""to"":""a,b""}",,`),
  ]);
});
