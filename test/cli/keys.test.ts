// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { commandContext } from "../../src/app/command-context.ts";
import { parseArguments } from "../../src/cli/arguments.ts";
import { changedLimits, rule } from "../../src/cli/keys/limit-change.ts";
import { storeManagement } from "../../src/cli/management/store-management.ts";
import { json, shown } from "../../src/cli/shown-text.ts";
import { table } from "../../src/cli/table.ts";
import { loadConfig } from "../../src/config/load.ts";
import { parseToken } from "../../src/keys/token.ts";
import { unlimited } from "../../src/limits/limits.ts";
import { CommandLine } from "../support/command-line.ts";
import { engines, freshPostgresUrl } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { newKey } from "../support/new-key.ts";
import { anyText } from "../support/properties.ts";
import { ada } from "../support/storage-world.ts";

// Every command is a process of its own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

interface ShownKey {
  readonly id: string;
  readonly name: string;
  readonly source: string;
  readonly state: string;
  readonly key?: string;
  readonly tokens: readonly { readonly last4: string; readonly expires_at: string | null }[];
  readonly [field: string]: unknown;
}

describe("a key that is made", () => {
  test("is printed once, alone on standard output, and is nowhere in the data folder", async () => {
    const cli = new CommandLine();
    const { code, out, err } = await cli.run(["keys", "create", "laptop", "--owner", "ada"]);
    expect([code, err.includes("shown only once")]).toEqual([0, true]);
    const token = out.trimEnd();
    expect(out).toBe(`${token}\n`);
    expect(parseToken(token)).toEqual({ publicId: token.slice(6, 18) });
    const later = await Promise.all([
      cli.here(["keys", "list", "--json"]),
      cli.here(["keys", "show", "laptop", "--json"]),
      cli.here(["audit"]),
    ]);
    const written = readdirSync(cli.dataDir).map((name) => readFileSync(join(cli.dataDir, name), "latin1"));
    for (const text of [...later.flatMap(({ out, err }) => [out, err]), ...written]) expect(text).not.toContain(token.slice(20, -6));
  });

  test("says in JSON what it is, and keeps every option", async () => {
    const cli = new CommandLine();
    const options =
      "--owner ada --note note --model a,b* --model c --operation chat --channel eu --rpm 1 --tpm 2 --audio-seconds 3 --characters 4";
    const more = "--concurrency 5 --budget 6.5 --budget-period day --unpriced allow --expires 2099-01-01 --long-audio --long-input";
    const rules = ["--per-model", "x:y*:rpm=7,budget_usd=0.1,budget_period=week"];
    const made = await cli.json<ShownKey>("keys", "create", "all", ...options.split(" "), ...more.split(" "), ...rules);
    expect(Object.keys(made).slice(0, 3)).toEqual(["id", "name", "key"]);
    expect(made).toMatchObject({
      name: "all",
      source: "store",
      state: "active",
      owner: "ada",
      note: "note",
      models: ["a", "b*", "c"],
      operations: ["chat"],
      channels: ["eu"],
      limits: {
        rpm: 1,
        tpm: 2,
        audio_seconds: 3,
        characters: 4,
        concurrency: 5,
        budget_usd: 6.5,
        budget_period: "day",
        unpriced: "allow",
        per_model: [{ model: "x:y*", rpm: 7, budget_usd: 0.1, budget_period: "week" }],
      },
      long_audio: "split",
      long_input: "split",
      expires_at: "2099-01-01T00:00:00.000Z",
    });
    const { key, ...rest } = made;
    expect(key).toMatch(/^sk-gw_/);
    expect(await cli.json<ShownKey>("keys", "show", "all")).toEqual({ ...rest, spent: 0 });
  });

  test("works at a running gateway until it is revoked", async () => {
    await using gateway = await startGateway({ config: { keys: [{ name: "own", key: "0123456789abcdefghij" }] } });
    const config = join(gateway.directory, "sluice.yaml");
    const cli = new CommandLine();
    const { key = "" } = await cli.json<ShownKey>("keys", "create", "laptop", "--config", config);
    const status = async (): Promise<number> =>
      (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status;
    await eventually("the key opens", async () => (await status()) === 200);
    expect((await cli.run(["keys", "revoke", "laptop", "--config", config])).code).toBe(0);
    await eventually("the key is refused", async () => (await status()) === 401);
  });

  test("cannot have a name that is in use in the store or the file, or that is a key itself", async () => {
    const cli = new CommandLine({ keys: [{ name: "filed", key: "0123456789abcdefghij" }] });
    const { key = "" } = await cli.json<ShownKey>("keys", "create", "laptop");
    for (const name of ["laptop", "filed", "file:filed", key]) {
      const { code, err } = await cli.here(["keys", "create", name]);
      expect([name === key ? 64 : 1, name, err]).toEqual([
        code,
        name,
        expect.stringMatching(/[Cc]hoose another|must not begin with|not a name/),
      ]);
    }
    expect((await cli.json<ShownKey[]>("keys", "list")).map(({ name }) => name)).toEqual(["filed", "laptop"]);
  });
});

describe("an imported key", () => {
  const own = "Jm2k9wQx7RtY4uPz8LsD3fGh6AcVbN1e";

  test("is read from standard input and not printed", async () => {
    const cli = new CommandLine();
    const { code, out, err } = await cli.run(["keys", "create", "old", "--import"], { input: `${own}\r\n` });
    expect([code, (out + err).includes(own)]).toEqual([0, false]);
    expect(await cli.json<ShownKey>("keys", "show", "old")).toMatchObject({ tokens: [{ last4: "bN1e" }] });
    const again = await cli.here(["keys", "create", "twice", "--import"], { input: own });
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("already opens a key")]);
  });

  test("keeps its id if another Sluice made it", async () => {
    const [here, there] = [new CommandLine(), new CommandLine()];
    const { id, key = "" } = await there.json<ShownKey>("keys", "create", "moved");
    expect((await here.here(["keys", "create", "moved", "--import"], { input: key })).code).toBe(0);
    expect(await here.json<ShownKey>("keys", "show", "moved")).toMatchObject({ id });
  });

  test.each([
    ["short", "short", /at least 32/],
    ["one that repeats itself", "ab".repeat(20), /repeats a few characters/],
    ["two lines", `${own}\n${own}\n`, /more than one line/],
    ["nothing", "", /is empty/],
    ["no text", Uint8Array.of(0xff, 0xfe, 0x00), /UTF-8/],
    ["a mistyped one", "sk-gw_abcdefghijkl_0123456789012345678901234567890123456789012345678", /checksum/],
    ["an admin token", "sk-gwa_abcdefghijkl_0123456789012345678901234567890123456789012345678", /admin API/],
  ])("is refused if it is %s", async (_, input, words) => {
    const cli = new CommandLine();
    const { code, out, err } = await cli.here(["keys", "create", "old", "--import"], { input });
    expect([code, out, err]).toEqual([64, "", expect.stringMatching(words)]);
    expect(err).not.toContain("0123456789012345678901234567890123456789");
  });

  test("is refused if standard input does not end", async () => {
    const { code, out, err } = await new CommandLine().run(["keys", "create", "old", "--import"], { input: "x".repeat(1_000_000) });
    expect([code, out, err]).toEqual([64, "", expect.stringContaining("too long")]);
  });

  test("is typed without echo on a terminal", async () => {
    const cli = new CommandLine();
    const { code, out } = await cli.onTerminal(["keys", "create", "old", "--import"], [["not shown", `wrong\u0015x\u007F${own}\r`]]);
    expect([code, out.includes(own)]).toEqual([0, false]);
    expect(await cli.json<ShownKey>("keys", "show", "old")).toMatchObject({ tokens: [{ last4: "bN1e" }] });
  });
});

describe("a key that exists", () => {
  test("is rotated with an overlap of a day by default", async () => {
    const cli = new CommandLine();
    const made = await cli.json<ShownKey>("keys", "create", "laptop");
    const rotated = await cli.json<ShownKey>("keys", "rotate", "laptop");
    expect(rotated.key).not.toBe(made.key);
    const [fresh, old] = rotated.tokens;
    expect([rotated.id, fresh?.expires_at, old?.last4]).toEqual([made.id, null, made.tokens[0]?.last4 ?? ""]);
    expect(Math.abs(Date.parse(old?.expires_at ?? "") - Date.now() - 86_400_000)).toBeLessThan(60_000);
    const { out, err } = await cli.here(["keys", "rotate", made.id, "--overlap", "0"]);
    expect([parseToken(out.trim()), err]).toEqual([expect.anything(), expect.stringContaining("no longer works")]);
    expect(await cli.here(["keys", "rotate", "laptop", "--overlap", "8d"])).toMatchObject({
      code: 64,
      err: expect.stringContaining("at most 7d"),
    });
  });

  test("has limits that can be set and removed one by one", async () => {
    const cli = new CommandLine();
    await cli.json("keys", "create", "laptop", "--rpm", "10", "--budget", "5", "--budget-period", "month");
    const limits = (...options: readonly string[]): Promise<unknown> => cli.json("keys", "limits", "laptop", ...options);
    expect(await limits("--tpm", "100", "--per-model", "a*:rpm=1", "--per-model", "b:tpm=2")).toEqual({
      rpm: 10,
      tpm: 100,
      budget_usd: 5,
      budget_period: "month",
      per_model: [
        { model: "a*", rpm: 1 },
        { model: "b", tpm: 2 },
      ],
    });
    expect(await limits("--no-rpm", "--budget", "0.000000001", "--per-model", "a*:off", "--per-model", "b:concurrency=3")).toEqual({
      tpm: 100,
      budget_usd: 0.000000001,
      budget_period: "month",
      per_model: [{ model: "b", concurrency: 3 }],
    });
    expect(await limits("--no-tpm", "--no-budget", "--no-per-model")).toEqual({});
    expect(await limits()).toEqual({});
    const refused = await cli.here(["keys", "limits", "laptop", "--budget-period", "day"]);
    expect([refused.code, refused.err]).toEqual([64, expect.stringContaining("give --budget too")]);
  });

  test("loses no limit that others set at the same moment", async () => {
    const cli = new CommandLine();
    const { id } = await cli.json<ShownKey>("keys", "create", "laptop");
    const read = await loadConfig({ path: cli.config, text: readFileSync(cli.config, "utf8"), env: {}, nofile: 1024 });
    if (!read.ok) throw new Error("the configuration cannot be read");
    const context = commandContext(read.settings, cli.config, null, {});
    const store = await context.open();
    const management = storeManagement(store, context.actor);
    const limits = ["requests", "tokens", "concurrency", "characters"];
    await Promise.all(limits.map((limit) => management.changeKeyLimits(id, (before) => ({ ...before, [limit]: 7 }))));
    await store.close();
    expect(await cli.json<unknown>("keys", "limits", "laptop")).toEqual({ rpm: 7, tpm: 7, concurrency: 7, characters: 7 });
  });

  test("is edited field by field", async () => {
    const cli = new CommandLine();
    const { id } = await cli.json<ShownKey>(
      "keys",
      "create",
      "laptop",
      "--owner",
      "ada",
      "--model",
      "a",
      "--expires",
      "30d",
      "--long-audio",
    );
    const edited = await cli.json<ShownKey>("keys", "edit", id, "--name", "notebook", "--no-model", "--no-expires", "--long-input");
    expect(edited).toMatchObject({
      id,
      name: "notebook",
      owner: "ada",
      models: null,
      expires_at: null,
      long_audio: "split",
      long_input: "split",
    });
    expect(await cli.here(["keys", "edit", "notebook"])).toMatchObject({ code: 64 });
    expect(await cli.here(["keys", "edit", "notebook", "--expires", "2020-01-01"])).toMatchObject({ code: 64 });
    expect(await cli.here(["keys", "edit", "laptop", "--no-owner"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("There is no key"),
    });
  });

  test("is revoked on a terminal only after confirmation", async () => {
    const cli = new CommandLine();
    await cli.json("keys", "create", "laptop");
    expect(await cli.onTerminal(["keys", "revoke", "laptop"], [["[y/N]", "n\r"]])).toMatchObject({ code: 1 });
    expect(await cli.onTerminal(["keys", "revoke", "laptop"], [["[y/N]", "\u0003"]])).toMatchObject({ code: 130 });
    expect(await cli.json<ShownKey>("keys", "show", "laptop")).toMatchObject({ state: "active" });
    expect(await cli.onTerminal(["keys", "revoke", "laptop"], [["[y/N]", "y\r"]])).toMatchObject({ code: 0 });
    expect(await cli.json<ShownKey>("keys", "show", "laptop")).toMatchObject({ state: "revoked" });
    expect(await cli.json<ShownKey[]>("keys", "list")).toEqual([]);
    expect(await cli.json<ShownKey[]>("keys", "list", "--revoked")).toHaveLength(1);
  });

  test("of the configuration file is shown, and changed only there", async () => {
    const cli = new CommandLine({ keys: [{ name: "filed", key: "0123456789abcdefghij", limits: { rpm: 3 } }] });
    expect(await cli.json<ShownKey[]>("keys", "list")).toMatchObject([{ id: "file:filed", source: "file", limits: { rpm: 3 } }]);
    for (const command of ["rotate filed", "revoke file:filed", "limits filed --rpm 4", "edit filed --owner ada"]) {
      expect(await cli.here(["keys", ...command.split(" ")])).toMatchObject({ code: 1, err: expect.stringContaining(cli.config) });
    }
  });
});

test("a long list is printed in full, or up to the limit", async () => {
  const cli = new CommandLine();
  await cli.withStorage(async ({ keys }) => {
    for (let at = 0; at < 450; at++)
      await keys.create(`id-${at}`, { ...newKey, name: `name-${at}` }, { digest: `digest-${at}`, last4: "abcd" }, ada);
  });
  expect(new Set((await cli.json<ShownKey[]>("keys", "list")).map(({ id }) => id)).size).toBe(450);
  const some = await cli.here(["keys", "list", "--limit", "201"]);
  expect([some.out.trimEnd().split("\n").length, some.err]).toEqual([202, expect.stringContaining("There are more")]);
  expect(await cli.json<ShownKey[]>("keys", "list", "--search", "NAME-44")).toHaveLength(11);
});

test("text of the store cannot move the cursor of a terminal, and times are local", async () => {
  const cli = new CommandLine();
  const createdMs = await cli.withStorage(async ({ keys }) => {
    const key = { ...newKey, name: "evil\u001b[2J\u202e", owner: "a\nb" };
    return (await keys.create("evil", key, { digest: "digest", last4: "\u0007\u0007\u0007\u0007" }, ada)).createdMs;
  });
  for (const command of ["keys list", "keys show evil", "audit", "keys list --json"]) {
    const { out } = await cli.here(command.split(" "));
    expect(out).toContain("evil\\u");
    expect(out).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
  }
  const { out } = await cli.run(["keys", "show", "evil"]);
  const inTokyo = new Date(createdMs + 9 * 3_600_000).toISOString().slice(0, 16);
  expect(out).toContain(`created     ${inTokyo}`);
});

test.skipIf(engines[1]?.skipped !== null)("keys work the same in PostgreSQL", async () => {
  const cli = new CommandLine({ store: await freshPostgresUrl() });
  const { id, key = "" } = await cli.json<ShownKey>("keys", "create", "laptop", "--rpm", "5");
  expect(parseToken(key)).toEqual({ publicId: id });
  expect(await cli.json<ShownKey[]>("keys", "list")).toMatchObject([{ id, limits: { rpm: 5 } }]);
  expect(await cli.json<unknown>("usage", "--by", "key,day")).toEqual([]);
  expect((await cli.here(["keys", "revoke", "laptop"])).code).toBe(0);
  expect(await cli.json<readonly { action: string }[]>("audit")).toMatchObject([
    { action: "key.revoke" },
    { action: "key.create", subject: id },
  ]);
});

describe("each kind of problem has its own exit code", () => {
  test("a server that is not there", async () => {
    const cli = new CommandLine({ store: "postgres://127.0.0.1:1/sluice" });
    expect(await cli.run(["keys", "list"])).toMatchObject({ code: 69, out: "", err: expect.stringContaining("cannot be reached") });
  });

  test("a configuration that cannot be used", async () => {
    const cli = new CommandLine({ keys: [{ name: "short", key: "short" }] });
    expect(await cli.run(["keys", "list"])).toMatchObject({ code: 78, err: expect.stringContaining("16 characters") });
  });

  test("another master key", async () => {
    const cli = new CommandLine();
    expect((await cli.here(["keys", "create", "laptop"])).code).toBe(0);
    const env = { SLUICE_MASTER_KEY: "0123456789abcdef".repeat(4) };
    expect(await cli.run(["keys", "list"], { env })).toMatchObject({ code: 78, err: expect.stringContaining("another master key") });
  });
});

test.each([
  "keys",
  "keys create",
  "keys list",
  "keys show",
  "keys rotate",
  "keys revoke",
  "keys limits",
  "keys edit",
  "usage",
  "audit",
  "prices",
  "prices list",
  "prices set",
  "prices remove",
  "accounts",
  "accounts create",
  "accounts tokens create",
  "backup",
  "restore",
  "master-key",
  "master-key show",
  "master-key rotate",
])("help on «%s» shows an example", (command) => {
  const invocation = parseArguments([...command.split(" "), "--help"], "1.2.3");
  expect(invocation.command === "help" ? invocation.text : invocation.command).toMatch(new RegExp(`\\$ .*sluice ${command}`));
});

test("usage errors are reported before the store is opened", () => {
  for (const line of [
    "keys create",
    "keys create x --rpm 0",
    "keys create x --budget -1",
    "keys create x --operation dance",
    "keys create x --expires tomorrow",
    "keys create x --per-model rpm=1",
    "keys create x --per-model a:rpm=1,rpn=2",
    "keys create x --per-model a:budget_period=day",
    "keys create x --per-model a:rpm=1,rpm=2",
    "keys create x --per-model a:constructor=1",
    "keys create x --per-model a:__proto__=1",
    "keys create x --selected-budget a:models=x,models=y,budget_usd=1",
    "keys create x --selected-budget a:budget_usd=1,budget_usd=2",
    "keys create x --model a,,b",
    "keys list --limit 0",
    "usage --by week",
    "usage --since yesterday",
    "usage --json --csv",
    "prices set x",
    "prices set x --input free",
    "accounts create ada",
    "accounts create ada --role owner",
    "backup",
  ]) {
    expect([line, parseArguments(line.split(" "), "1.2.3")]).toEqual([
      line,
      expect.objectContaining({ command: "usage-error", exitCode: 64 }),
    ]);
  }
});

test("limits for models that were read are what was written, whatever the models are called", () => {
  const name = fc.string({ minLength: 1, maxLength: 40, unit: "grapheme" }).filter((text) => text.trim() === text && !/\p{Cc}/u.test(text));
  const count = fc.option(fc.integer({ min: 1, max: 1e6 }), { nil: null });
  fc.assert(
    fc.property(name, count, count, fc.integer({ min: 0, max: 9e12 }), (pattern, rpm, tpm, micros) => {
      const words = [
        rpm === null ? [] : [`rpm=${rpm}`],
        tpm === null ? [] : [`tpm=${tpm}`],
        [`budget_usd=${micros / 1e6}`, "budget_period=hour"],
      ];
      const read = rule(`${pattern}:${words.flat().join(",")}`);
      if (typeof read === "string") throw new Error(read);
      expect(read).toMatchObject({ pattern, limits: { requests: rpm, tokens: tpm, budget: { nanos: micros * 1000, period: "hour" } } });
      const rules = { clears: false, changes: [read] };
      const once = changedLimits(unlimited, { rates: {}, rules, budgets: [] });
      expect(typeof once === "string" ? once : changedLimits(once, { rates: {}, rules, budgets: [] })).toEqual(once);
      expect(
        typeof once === "string"
          ? once
          : changedLimits(once, { rates: {}, rules: { clears: false, changes: [{ pattern, limits: null }] }, budgets: [] }),
      ).toEqual(unlimited);
    }),
  );
});

test("no text leaves a raw control character, breaks a line, or changes in JSON", () => {
  fc.assert(
    fc.property(anyText({ maxLength: 50 }), (text) => {
      expect(shown(text)).not.toMatch(/\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/u);
      expect(table([{ title: "T", cell: (row: string) => row }], [text]).split("\n")).toHaveLength(2);
      expect(json([text])).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
      expect(JSON.parse(json([text]))).toEqual([text]);
    }),
  );
});

test.each([
  ["UTC", "2127-01-31T00:00Z"],
  ["Asia/Kolkata", "2127-01-31T05:30+05:30"],
  ["America/New_York", "2127-01-30T19:00-05:00"],
])("times are shown with the zone %s, and options take what is shown", async (zone, expiry) => {
  const cli = new CommandLine();
  const env = { TZ: zone };
  expect((await cli.run(["keys", "create", "laptop", "--expires", "2127-01-31"], { env })).code).toBe(0);
  const shownKey = async () => (await cli.run(["keys", "show", "laptop"], { env })).out;
  expect(await shownKey()).toMatch(new RegExp(`expires +${expiry.replace("+", "\\+")}\n`));
  expect((await cli.run(["keys", "edit", "laptop", "--expires", expiry], { env })).code).toBe(0);
  expect((await cli.json<ShownKey>("keys", "show", "laptop"))["expires_at"]).toBe("2127-01-31T00:00:00.000Z");
});
