import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readResourceFile } from "../../src/config/resource-file/read.ts";
import { readRuntimeChannel } from "../../src/config/runtime-channel.ts";
import type { AuditEntry } from "../../src/gateway/storage.ts";
import { defaultGroup } from "../../src/keys/stored-group.ts";
import { unlimited } from "../../src/limits/limits.ts";
import { ManageError } from "../../src/manage/error.ts";
import { applyResources } from "../../src/manage/resource-file/apply.ts";
import type { DesiredResources, ResourceContext } from "../../src/manage/resource-file/desired-resources.ts";
import { exportedResources, exportProblem, resourceSections } from "../../src/manage/resource-file/exported-resources.ts";
import { plannedChanges } from "../../src/manage/resource-file/planned-changes.ts";
import { newKey } from "../support/new-key.ts";
import { numRuns } from "../support/properties.ts";
import { channelStatus, manageWorld, operator, type ManageWorld } from "../support/manage-world.ts";

const env = {
  MAIN: "sk-upstream-0123456789-wxyz",
  OTHER: "sk-upstream-9876543210-abcd",
  LAPTOP: "client-key-0123456789-abcdefghijkl",
  CI: "client-key-9876543210-mnopqrstuvw",
};

const file = `
channels:
  - { name: main, base_url: "https://api.example.com/v1", api_key: "\${MAIN}", models: [a, b], tier: 2, headers: { x-team: blue } }
  - { name: spare, base_url: "https://spare.example.com/v1", models: "*" }
groups:
  - { name: web, kind: team, parent: acme, defaults: { keys: { rpm: 60 } } }
  - { name: acme, kind: organisation, limits: { budget_usd: 100, budget_period: month, budgets: [{ name: art, operations: [image], budget_usd: 5 }] } }
keys:
  - name: ada's laptop
    key: \${LAPTOP}
    owner: ada
    models: [a]
    limits: { rpm: 60, budget_usd: 12.5, budget_period: month, per_model: [{ model: "b*", tpm: 1000 }] }
    expires: 2030-01-01
  - { name: build, key: "\${CI}", long_audio: split, group: web }
prices:
  - { provider: groq, model: llama, from: 2026-01-01, input: 0.59, cache_write: 0.1, long_above_tokens: 1000, long_input: 2, note: "from their page" }
  - { model: "*", input: 0 }
`;

/** The hashes of a real store are of this form. */
const digest = (token: string): string => new Bun.CryptoHasher("sha256").update(token).digest("hex");

function contextOf({ context }: ManageWorld): ResourceContext {
  return {
    ...context,
    fileGroups: () => [{ ...defaultGroup, id: "file-group:filed", name: "filed", frozen: false }],
    digest,
    channels: {
      ...context.channels,
      check: async (entry, secrets) => {
        const reading = readRuntimeChannel(entry, secrets, { allowPrivate: false, localModels: [], own: [] });
        return reading.ok ? [] : reading.problems;
      },
      unseal: (name, sealed) => sealed.slice(`sealed ${name} `.length).split(" "),
    },
  };
}

async function desired(text: string, variables: Readonly<Record<string, string>> = env): Promise<DesiredResources> {
  const reading = await readResourceFile(text, variables);
  if (!reading.ok) throw new Error(JSON.stringify(reading.problems));
  return reading.desired;
}

async function apply(world: ManageWorld, text: string, options: { readonly prune?: boolean; readonly dryRun?: boolean } = {}) {
  const { prune = false, dryRun = false } = options;
  const changes = await applyResources(contextOf(world), await desired(text), { prune, dryRun, file: "resources.yaml" }, operator);
  return changes instanceof ManageError ? changes.message : changes.map(({ what, name, action }) => `${action} ${what} ${name}`);
}

async function trail({ storage }: ManageWorld): Promise<readonly AuditEntry[]> {
  return (await storage.audit.list({ action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 100 })).toReversed();
}

const everything = [
  "create channel main",
  "create channel spare",
  "create price groq llama from 2026-01-01",
  "create price *",
  "create group acme",
  "create group web",
  "create key ada's laptop",
  "create key build",
];

describe("applying a resource file", () => {
  test("creates what it lists, and a second time changes nothing", async () => {
    await using world = await manageWorld();
    expect(await apply(world, file)).toEqual(everything);
    const revision = await world.storage.revision();
    expect(await apply(world, file)).toEqual([]);
    expect(await world.storage.revision()).toBe(revision);
    expect(await world.storage.channels.get("main")).toMatchObject({ sealed: `sealed main ${env.MAIN}`, last4: ["wxyz"] });
    const opened = await world.storage.keys.byDigest(digest(env.LAPTOP));
    expect(opened?.key).toMatchObject({
      name: "ada's laptop",
      owner: "ada",
      limits: { requests: 60, budget: { nanos: 12.5e9, period: "month" } },
    });
  });

  test("leaves an audit entry for each change, and one for the file, with who, and without secrets", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    await apply(world, file.replace("tier: 2", "tier: 3").replace("limits: { rpm: 60", "limits: { rpm: 6"));
    const entries = await trail(world);
    expect(entries.map(({ action }) => action)).toEqual([
      ...[
        "channel.create",
        "channel.create",
        "price.set",
        "price.set",
        "group.create",
        "group.create",
        "key.create",
        "key.create",
        "config.apply",
      ],
      ...["channel.change", "key.change", "config.apply"],
    ]);
    expect(entries.at(-3)?.detail).toMatchObject({ changed: { tier: { from: 2, to: 3 } } });
    expect(entries.at(-2)?.detail).toMatchObject({ limits: { from: { requests: 60 }, to: { requests: 6 } } });
    expect(entries.at(-1)).toMatchObject({ subject: "resources.yaml", actor: operator, detail: { "channel.change": 1, "key.change": 1 } });
    for (const secret of Object.values(env)) expect(JSON.stringify(entries)).not.toContain(secret);
  });

  test("removes with --prune what the file does not list, in the lists that it has", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    const less = "channels:\n  - { name: spare, base_url: 'https://spare.example.com/v1', models: '*' }\nkeys: []\n";
    expect(await apply(world, less)).toEqual([]);
    const pruned = await apply(world, less, { prune: true });
    expect([...pruned].toSorted()).toEqual(["remove channel main", "revoke key ada's laptop", "revoke key build"]);
    expect((await world.storage.prices.list()).length).toBe(2);
  });

  test("as a dry run finds the same changes and makes none", async () => {
    await using world = await manageWorld();
    expect(await apply(world, file, { dryRun: true })).toEqual(everything);
    expect([await world.storage.channels.list(), await world.storage.keys.count(), await trail(world)]).toEqual([[], 0, []]);
  });

  test("leaves nothing half done if something in the middle is refused", async () => {
    await using world = await manageWorld();
    const broken = file.replace("https://spare.example.com/v1", "http://127.0.0.1:8080/v1");
    expect(await apply(world, broken)).toContain("Line 4: channel spare: base_url: This is a private address.");
    expect([await world.storage.channels.list(), await world.storage.keys.count(), await trail(world)]).toEqual([[], 0, []]);
  });

  test("changes a token with a day for clients to follow, and keeps it where the file has none", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    expect(await apply(world, file.replace("key: ${LAPTOP}", "key: ${CI}x").replace('key: "${CI}", ', ""))).toEqual([
      "change key ada's laptop",
    ]);
    const [key] = await world.storage.keys.list({ search: "laptop", revoked: false, after: null, limit: 1 });
    expect(key?.tokens.map(({ last4, expiresMs }) => [last4, expiresMs])).toEqual([
      ["uvwx", null],
      ["ijkl", world.clock.nowMs + 86_400_000],
    ]);
    expect(await world.storage.keys.byDigest(digest(env.CI))).toMatchObject({ key: { name: "build" } });
  });

  test("renames a key that it has by its id, and makes a new one of the entry that has the old name", async () => {
    await using world = await manageWorld();
    await apply(world, "keys: [{ name: build, key: '${CI}' }]");
    const { id } = (await world.storage.keys.find("build"))!;
    const both = `keys:\n  - { name: build, key: "\${LAPTOP}" }\n  - { name: old build, id: ${id}, key: "\${CI}" }\n`;
    expect(await apply(world, both, { prune: true })).toEqual(["change key old build", "create key build"]);
    expect(await world.storage.keys.byDigest(digest(env.CI))).toMatchObject({ key: { id, name: "old build" }, tokenExpiresMs: null });
    expect((await world.storage.keys.byDigest(digest(env.LAPTOP)))?.key).toMatchObject({ name: "build", tokens: [{ last4: "ijkl" }] });
    expect(await apply(world, both, { prune: true })).toEqual([]);
  });

  test("passes names on from key to key, and refuses a circle of them", async () => {
    await using world = await manageWorld();
    await apply(world, "keys: [{ name: a, key: '${CI}' }, { name: b, key: '${LAPTOP}' }]");
    const [a, b] = [(await world.storage.keys.find("a"))!.id, (await world.storage.keys.find("b"))!.id];
    expect(await apply(world, `keys:\n  - { name: b, id: ${a} }\n  - { name: a, id: ${b} }\n`)).toContain(
      "b (line 2), a (line 3) exchange names",
    );
    expect(await apply(world, `keys: [{ name: b, id: ${a} }, { name: c, id: ${b} }]`)).toEqual(["change key c", "change key b"]);
    expect([(await world.storage.keys.get(a))?.name, (await world.storage.keys.get(b))?.name]).toEqual(["b", "c"]);
  });

  test("knows a key without an id by its name only, and not by a name that is the id of a key", async () => {
    await using world = await manageWorld();
    await apply(world, "keys: [{ name: build, key: '${CI}' }]");
    const { id } = (await world.storage.keys.find("build"))!;
    expect(await apply(world, `keys: [{ name: build }, { name: ${id}, key: "\${LAPTOP}" }]`)).toContain("this name or id already exists");
  });

  test("keeps the keys of a channel that gives none, and does not send them to another address", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    const without = file.replace('api_key: "${MAIN}", ', "");
    expect(await apply(world, without.replace("tier: 2", "tier: 4"))).toEqual(["change channel main"]);
    expect(await world.storage.channels.get("main")).toMatchObject({ sealed: `sealed main ${env.MAIN}`, entry: { tier: 4 } });
    expect(await apply(world, without.replace("api.example.com", "evil.example.com"))).toContain("give them again as 'secrets'");
  });

  test.each([
    ["a key of the configuration file", "keys: [{ name: ci, key: '${CI}' }]", "Key ci is defined in sluice.yaml, line 7: change it there."],
    [
      "a channel of the configuration file",
      "channels: [{ name: filed, provider: openai }]",
      "Channel filed is defined in sluice.yaml, line 7",
    ],
    ["a new key without a token", "keys: [{ name: new }]", "is new, and has no token"],
    ["a token that could be guessed", "keys: [{ name: new, key: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa }]", "could be guessed"],
    ["a reserved name", "keys: [{ name: 'file:x', key: '${CI}' }]", "must not begin with file:"],
    ["the id of a key of the configuration file", "keys: [{ name: new, id: 'file:ci', key: '${CI}' }]", "Key ci is defined in sluice.yaml"],
    ...["file:gone", "jwt:jobs:ada", "*", "grp_0123456789ab", "file-group:filed", "team one", "x *", "grp_a>k"].map(
      (id): [string, string, string] => [
        `the id ${id}, which is that of something else`,
        `keys: [{ name: new, id: "${id}", key: "\${CI}" }]`,
        `The id ${id} of key new (line 1) is one that no key of the store can have: copy it`,
      ],
    ),
    [
      "the token of a key in the configuration file",
      "keys: [{ name: new, key: file-token-0123456789abcdefghijklmnop }]",
      "already opens a key",
    ],
    ["a group of the configuration file", "groups: [{ name: filed }]", "Group filed is defined in sluice.yaml, line 7: change it there."],
    ["a key of a group that nobody has", "keys: [{ name: new, key: '${CI}', group: nobody }]", "There is no group nobody, which key new"],
    ["a group below one that nobody has", "groups: [{ name: a, parent: nobody }]", "There is no group nobody, which group a"],
    [
      "a fourth level",
      "groups: [{ name: d, parent: c }, { name: c, parent: b }, { name: b, parent: a }, { name: a }]",
      "group d: Groups have at most 3 levels.",
    ],
    ["hashes without their store", `keys: [{ name: new, hash: ${"a".repeat(64)} }]`, "no store_id"],
    ["hashes of another store", `store_id: other\nkeys: [{ name: new, hash: ${"a".repeat(64)} }]`, "another store"],
  ])("refuses %s", async (_, text, message) => {
    await using world = await manageWorld();
    world.running.push(channelStatus("filed", "file"));
    expect(await apply(world, text)).toContain(message);
    expect(await trail(world)).toEqual([]);
  });

  test("changes, moves and removes groups, and leaves one frozen that the file says nothing about", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    const web = await world.storage.groups.find("web");
    await world.storage.groups.change(web!.id, { frozen: true }, [], operator);
    expect(await apply(world, file)).toEqual([]);
    const moved = "groups:\n  - { name: web, parent: other, limits: { rpm: 5 } }\n  - { name: other }\n";
    expect(await apply(world, moved, { prune: true })).toEqual(["create group other", "change group web", "remove group acme"]);
    const other = await world.storage.groups.find("other");
    expect(await world.storage.groups.get(web!.id)).toMatchObject({
      kind: "group",
      parent: other!.id,
      frozen: true,
      limits: { requests: 5 },
    });
    expect(await apply(world, "groups: []", { prune: true })).toContain("group web: Key build is in this group");
    const nothing = "keys: []\ngroups: []";
    const pruned = await apply(world, nothing, { prune: true });
    // Keys are revoked in the order of their ids.
    expect([...pruned.slice(0, 2)].toSorted()).toEqual(["revoke key ada's laptop", "revoke key build"]);
    expect(pruned.slice(2)).toEqual(["remove group web", "remove group other"]);
  });

  test("moves groups in an order in which no step has too many levels, whatever the order of the file", async () => {
    const before = "groups: [{ name: a }, { name: b, parent: a }, { name: c, parent: b }]";
    const after = ["{ name: x }", "{ name: a, parent: x }", "{ name: b, parent: x }", "{ name: c, parent: b }"];
    for (const entries of [after, after.toReversed()]) {
      await using world = await manageWorld();
      await apply(world, before);
      const changes = await apply(world, `groups: [${entries.join(", ")}]`);
      expect([...changes].toSorted()).toEqual(["change group a", "change group b", "create group x"]);
      expect(await apply(world, `groups: [${entries.join(", ")}]`)).toEqual([]);
    }
  });

  test("moves groups after others have been removed, where there are too many levels before", async () => {
    await using world = await manageWorld();
    await apply(world, "groups: [{ name: a }, { name: b, parent: a }, { name: c, parent: b }]");
    const after = "groups: [{ name: x }, { name: a, parent: x }, { name: b, parent: a }]";
    expect(await apply(world, after)).toContain("group a: Groups have at most 3 levels.");
    expect(await apply(world, after, { prune: true })).toEqual(["create group x", "remove group c", "change group a"]);
    expect(await apply(world, after, { prune: true })).toEqual([]);
  });

  test("turns a tree of groups upside down", async () => {
    await using world = await manageWorld();
    await apply(world, "groups: [{ name: a }, { name: b, parent: a }, { name: c, parent: b }]");
    const after = "groups: [{ name: a, parent: b }, { name: b, parent: c }, { name: c }]";
    expect(await apply(world, after)).toEqual(["change group c", "change group b", "change group a"]);
    expect(await apply(world, after)).toEqual([]);
    expect(await apply(world, "groups: [{ name: c, parent: a }]")).toContain("group c: A group cannot be below itself.");
  });

  test("refuses the name of a revoked key, because a revocation is final", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    await apply(world, "keys: []", { prune: true });
    expect(await apply(world, file)).toContain("was revoked, which cannot be undone");
  });
});

describe("an exported resource file", () => {
  const all = { sections: resourceSections, keyVariables: false };

  test("applied to an empty store makes the same store, and is exported the same again", async () => {
    await using first = await manageWorld();
    await apply(first, file);
    const { document, variables } = await exportedResources(contextOf(first), all);
    const text = JSON.stringify(document);
    for (const secret of Object.values(env)) expect(text).not.toContain(secret);
    expect([...variables.keys()]).toEqual(["CHANNEL_MAIN_KEY", "CHANNEL_MAIN_X_TEAM"]);
    const secrets = { CHANNEL_MAIN_KEY: env.MAIN, CHANNEL_MAIN_X_TEAM: "blue" };

    await using second = await manageWorld();
    const wanted = await desired(text, secrets);
    const changes = await applyResources(contextOf(second), wanted, { prune: true, dryRun: false, file: "x" }, operator);
    expect(changes).toHaveLength(8);
    for (const world of [first, second]) expect(await plannedChanges(contextOf(world), wanted, true)).toEqual([]);
    expect((await exportedResources(contextOf(second), all)).document).toEqual(document);
    expect((await second.storage.keys.byDigest(digest(env.CI)))?.key.name).toBe("build");
  });

  test("from before a rotation can still be applied, and makes the token current again", async () => {
    await using world = await manageWorld();
    await apply(world, "keys: [{ name: build, key: '${CI}' }]");
    const text = JSON.stringify((await exportedResources(contextOf(world), { ...all, sections: ["keys"] })).document);
    const { id } = (await world.storage.keys.find("build"))!;
    for (const waitMs of [0, 2 * 86_400_000]) {
      world.clock.nowMs += 1;
      await world.storage.keys.rotate(id, { digest: `new ${waitMs}`, last4: "next" }, 86_400_000, operator);
      world.clock.nowMs += waitMs;
      expect(await apply(world, text)).toEqual(["change key build"]);
      expect(await world.storage.keys.byDigest(digest(env.CI))).toMatchObject({ key: { id }, tokenExpiresMs: null });
      expect((await world.storage.keys.get(id))?.tokens.slice(0, 2)).toMatchObject([
        { last4: "tuvw", expiresMs: null },
        { last4: "next", expiresMs: world.clock.nowMs + 86_400_000 },
      ]);
      expect(await apply(world, text)).toEqual([]);
    }
  });

  test("can still be applied when the configuration file defines its names, unless it changes one of them", async () => {
    await using world = await manageWorld();
    await apply(world, file);
    const filed: ResourceContext = {
      ...contextOf(world),
      fileGroups: () => [{ ...defaultGroup, id: "file-group:web", name: "web", frozen: false }],
      fileKeys: () => [{ ...newKey, id: "file:build", name: "build" }],
      opensFileKey: (token) => token === env.CI,
    };
    world.running.push(channelStatus("spare", "file"));
    const planned = async (text: string) => {
      const changes = await plannedChanges(filed, await desired(text), true);
      return changes instanceof ManageError ? changes.code : changes.map(({ change }) => change.name);
    };
    expect(await planned(file)).toEqual([]);
    expect(await planned(file.replace("tier: 2", "tier: 3"))).toEqual(["main"]);
    for (const [from, to] of [
      ['models: "*" }', 'models: "*", tier: 3 }'],
      ["kind: team", "kind: project"],
      ["long_audio: split, ", ""],
    ] as const) {
      expect(file).toContain(from);
      expect(await planned(file.replace(from, to))).toBe("in_file");
    }
  });

  test("is one that can be applied, whatever the admin API let into the store", async () => {
    await using world = await manageWorld();
    const { storage } = world;
    const twice = ["a", "b", "a"];
    const budget = { name: "some", models: twice, operations: null, channels: twice, nanos: 1, period: "day" } as const;
    const limits = { ...unlimited, budgets: [budget] };
    await storage.groups.create("grp_1", { ...defaultGroup, name: "team", note: "", limits }, [], operator);
    const key = { ...newKey, name: "app", note: "", models: twice, channels: twice, operations: ["chat", "chat"] as const, limits };
    await storage.keys.create("k-1", key, { digest: digest("one"), last4: "abcd" }, operator);
    const { document } = await exportedResources(contextOf(world), all);
    expect(document).toMatchObject({
      keys: [{ models: ["a", "b"], operations: ["chat"], limits: { budgets: [{ channels: ["a", "b"] }] } }],
    });
    expect(await plannedChanges(contextOf(world), await desired(JSON.stringify(document)), true)).toEqual([]);
  });

  test("tells a group of the store from one of the configuration file that has its name, and moves nothing from one to the other", async () => {
    await using world = await manageWorld();
    const { groups, keys } = world.storage;
    await groups.create("grp_namesake", { ...defaultGroup, name: "filed" }, [], operator);
    await groups.create("grp_below", { ...defaultGroup, name: "below", parent: "grp_namesake" }, [], operator);
    await keys.create("k-1", { ...newKey, name: "in it", group: "grp_namesake" }, { digest: digest("t"), last4: "abcd" }, operator);
    const { document } = await exportedResources(contextOf(world), all);
    const text = JSON.stringify(document);
    expect(await apply(world, text, { prune: true })).toEqual([]);
    expect(await apply(world, text.replace('"name":"below"', '"name":"below","kind":"team"'))).toEqual(["change group below"]);
    expect(await groups.get("grp_below")).toMatchObject({ kind: "team", parent: "grp_namesake" });
    expect(await apply(world, "keys: [{ name: in it, id: k-1, owner: ada, group: filed }]")).toEqual(["change key in it"]);
    expect(await keys.get("k-1")).toMatchObject({ owner: "ada", group: "grp_namesake" });
  });

  test("takes what is in a group that the configuration file has no more to the group of the store that gets its name", async () => {
    await using world = await manageWorld();
    const { groups, keys } = world.storage;
    const filed = contextOf(world).fileGroups();
    await groups.create("grp_below", { ...defaultGroup, name: "below", parent: "file-group:filed" }, filed, operator);
    await keys.create("k-1", { ...newKey, name: "in it", group: "file-group:filed" }, { digest: digest("t"), last4: "abcd" }, operator);
    const without: ResourceContext = { ...contextOf(world), fileGroups: () => [] };
    const { document } = await exportedResources(without, all);
    const text = JSON.stringify({ ...document, groups: [{ name: "filed" }, ...(document["groups"] as readonly object[])] });
    const options = { prune: false, dryRun: false, file: "resources.yaml" };
    const planned = await plannedChanges(without, await desired(text), true);
    expect(
      planned instanceof ManageError ? planned : planned.map(({ change }) => [change.name, change.action, change.fields]),
    ).toMatchObject([
      ["filed", "create", [{ field: "name" }]],
      ["below", "change", [{ field: "parent", from: "file-group:filed", to: "filed" }]],
      ["in it", "change", [{ field: "group", from: "file-group:filed", to: "filed" }]],
    ]);
    expect(await applyResources(without, await desired(text), options, operator)).toHaveLength(3);
    const made = (await groups.find("filed"))!.id;
    expect((await groups.get("grp_below"))?.parent).toBe(made);
    expect((await keys.get("k-1"))?.group).toBe(made);
    expect(await plannedChanges(without, await desired(text), true)).toEqual([]);
  });

  test("tells a group that the configuration file has no more from one of the store that has got its name", async () => {
    await using world = await manageWorld();
    const token = { digest: digest("t"), last4: "abcd" };
    await world.storage.keys.create("k-1", { ...newKey, name: "left over", group: "file-group:filed" }, token, operator);
    await world.storage.groups.create("grp_1", { ...defaultGroup, name: "filed" }, [], operator);
    const { document } = await exportedResources({ ...contextOf(world), fileGroups: () => [] }, all);
    expect(document).toMatchObject({ groups: [{ name: "filed" }], keys: [{ name: "left over", group: "file-group:filed" }] });
  });

  test("is refused where the store has more keys than may be held in memory, however many a page of it has", async () => {
    await using world = await manageWorld();
    await world.storage.together(async ({ keys }) => {
      for (let at = 0; at < 201; at += 1)
        await keys.create(`k-${at}`, { ...newKey, name: `key ${at}` }, { digest: `d-${at}`, last4: "abcd" }, operator);
    });
    expect((await exportProblem(contextOf(world), all, 200))?.message).toStartWith("The store has more than 200 keys:");
    expect(await exportProblem(contextOf(world), all, 201)).toBeNull();
    expect(await exportProblem(contextOf(world), { ...all, sections: ["groups"] }, 1)).toBeNull();
  });

  test("gives each secret a variable of its own, and escapes what only looks like one", async () => {
    await using world = await manageWorld();
    for (const name of ["a.b", "a-b"]) {
      const entry = { base_url: "https://a.example/v1", models: ["${X}"] };
      await world.storage.channels.create({ name, entry, sealed: `sealed ${name} s`, last4: ["abcd"] }, operator);
    }
    const { document, variables } = await exportedResources(contextOf(world), { sections: ["channels"], keyVariables: false });
    expect([...variables.keys()]).toEqual(["CHANNEL_A_B_KEY", "CHANNEL_A_B_KEY_2"]);
    const { channels } = await desired(JSON.stringify(document), { CHANNEL_A_B_KEY: "one", CHANNEL_A_B_KEY_2: "two" });
    expect(channels?.map(({ entry, secrets }) => [entry["models"], secrets])).toEqual([
      [["${X}"], ["one"]],
      [["${X}"], ["two"]],
    ]);
  });
});

test("a text with dollar signs is exported so that it is read again as it is, whatever variables there are", async () => {
  const texts = fc.array(fc.constantFrom("$", "$$", "{", "}", "${", "HOME", "I", "home", ":-", "Bearer ", " ", "5"), {
    minLength: 1,
    maxLength: 8,
  });
  await using world = await manageWorld();
  const notes = new Map<string, string>();
  for (const [at, parts] of fc.sample(texts, numRuns(200)).entries()) {
    const note = parts.join("");
    if (note.trim() === "") continue;
    await world.storage.groups.create(`grp_${at}`, { ...defaultGroup, name: `group ${at}`, note }, [], operator);
    notes.set(`group ${at}`, note);
  }
  const { document } = await exportedResources(contextOf(world), { sections: ["groups"], keyVariables: false });
  const { groups } = await desired(JSON.stringify(document), { HOME: "one", I: "two", home: "three" });
  expect(new Map(groups?.map(({ fields }) => [fields.name, fields.note]))).toEqual(notes);
});

describe("reading a resource file", () => {
  test.each([
    ["an empty file", "# nothing", [null, "the file is empty"]],
    ["a list, which is not an empty file", "# keys\n- name: a", [2, "this must be a group of settings"]],
    ["a setting of the gateway", "listen: 127.0.0.1:1", [1, "unknown setting"]],
    ["an unknown field", "keys:\n  - name: a\n    colour: red", [3, "unknown setting"]],
    ["two channels of one name", "channels:\n  - { name: a, provider: x }\n  - { name: a }", [2, expect.any(String)]],
    ["two keys of one name", "keys:\n  - { name: a }\n  - { name: a }", [3, "another entry has the same"]],
    ["two groups of one name", "groups:\n  - { name: a }\n  - { name: a }", [3, "another entry has the same"]],
    ["groups in a circle", "groups:\n  - { name: a, parent: b }\n  - { name: b, parent: a }", [2, "the group would be below itself"]],
    [
      "a budget of nothing",
      "groups:\n  - { name: a, limits: { budget_usd: 0 } }",
      [2, "a budget of 0 would reject every call with a price"],
    ],
    ["two prices for one day", "prices:\n  - { model: a, input: 1 }\n  - { model: a, input: 2 }", [3, "another entry has the same"]],
    ["a setting that is given twice", "keys: []\nkeys: []", [2, "this is set twice"]],
    ["a variable that is not set", "keys:\n  - { name: a, key: '${NOPE}' }", [2, "the environment variable NOPE is not set"]],
    ["an anchor inside itself", "keys: &k\n  - { name: a, models: *k }", [2, expect.stringMatching(/nested too deeply|anchor/)]],
    ["a key and a hash", `keys:\n  - { name: a, key: "${"k".repeat(32)}", hash: ${"a".repeat(64)} }`, [2, "key is also set"]],
    ["a file of keys", "channels:\n  - { name: a, api_key_file: /etc/passwd }", [2, "unknown setting"]],
  ])("refuses %s, with its line", async (_, text, [line, reason]) => {
    const reading = await readResourceFile(text, {});
    expect(reading.ok ? [] : [reading.problems[0]?.line, reading.problems[0]?.reason]).toEqual([line, reason]);
  });
});
