import { describe, expect, test } from "bun:test";
import { parseToken } from "../../src/keys/token.ts";
import { unlimited } from "../../src/limits/limits.ts";
import { ManageError } from "../../src/manage/error.ts";
import { createGroup, editGroup } from "../../src/manage/groups.ts";
import { keyById, keyByIdOrName, keyNames, keyPage, keyState, type KeyPageQuery } from "../../src/manage/key-search.ts";
import { createKey, editKey, revokeKey, rotateKey, type KeyWithToken } from "../../src/manage/keys.ts";
import { keyView } from "../../src/manage/key-view.ts";
import { codeAndField, fileKey, fileToken, manageWorld, operator, type ManageWorld, storageErrorKind } from "../support/manage-world.ts";

async function created({ context }: ManageWorld, name: string): Promise<KeyWithToken> {
  const made = await createKey(context, { name }, null, operator);
  if (made instanceof ManageError) throw new Error(made.message);
  return made;
}

describe("createKey", () => {
  test("makes a key without restrictions, whose id is the public part of its token", async () => {
    await using world = await manageWorld();
    const { key, token } = await created(world, "laptop");
    expect(key).toMatchObject({ name: "laptop", models: null, limits: unlimited, splits: { audio: false, input: false } });
    expect(parseToken(token)).toEqual({ publicId: key.id });
    expect((await world.storage.keys.byDigest(`digest of ${token}`))?.key.id).toBe(key.id);
    expect(key.tokens).toMatchObject([{ last4: token.slice(-4) }]);
    expect(await world.audited()).toEqual(["key.create"]);
  });

  test("sets the given fields, and one of the two split settings alone", async () => {
    await using world = await manageWorld();
    const made = await createKey(world.context, { name: "a", owner: "ada", models: ["small-*"], splits: { audio: true } }, null, operator);
    expect(made).toMatchObject({ key: { owner: "ada", models: ["small-*"], splits: { audio: true, input: false } } });
  });

  test.each([
    ["a name of the configuration file", { name: "ci" }, ["conflict", "name"]],
    ["an id of the configuration file", { name: "file:ci" }, ["conflict", "name"]],
    ["the prefix of such ids", { name: "file:other" }, ["conflict", "name"]],
    ["an expiry in the past", { name: "a", expiresMs: 1 }, ["invalid_value", "expires_at"]],
  ])("refuses %s", async (_, fields, error) => {
    await using world = await manageWorld();
    expect(codeAndField(await createKey(world.context, fields, null, operator))).toEqual(error);
    expect(await world.audited()).toEqual([]);
  });

  test("leaves a name that another stored key has to the store", async () => {
    await using world = await manageWorld();
    await created(world, "laptop");
    expect(await storageErrorKind(createKey(world.context, { name: "laptop" }, null, operator))).toBe("conflict");
  });

  test("imports a token: one of Sluice keeps its public id, any other gets a new one", async () => {
    await using world = await manageWorld();
    const { token, publicId } = world.context.makeKeyToken();
    expect(await createKey(world.context, { name: "ours" }, () => token, operator)).toMatchObject({ token, key: { id: publicId } });
    const foreign = "sk-0123456789abcdefghijklmnopqrstuvwxyz";
    const made = await createKey(world.context, { name: "foreign" }, async () => foreign, operator);
    expect(made).toMatchObject({ token: foreign });
    expect((made as KeyWithToken).key.id).not.toContain("0123456789");
  });

  test.each([
    ["too short a token", "short", ["invalid_value", "import"]],
    ["the token of a key in the configuration file", fileToken, ["conflict", "import"]],
  ])("does not import %s", async (_, token, error) => {
    await using world = await manageWorld();
    const refused = await createKey(world.context, { name: "a" }, () => token, operator);
    expect(codeAndField(refused)).toEqual(error);
    expect((refused as ManageError).message).not.toContain(token);
  });

  test("asks for the token after everything else is valid", async () => {
    await using world = await manageWorld();
    let asked = 0;
    await createKey(world.context, { name: "ci" }, () => `${++asked}`, operator);
    expect(asked).toBe(0);
  });
});

describe("editKey", () => {
  test("leaves the other split setting to whoever changes it at the same time, and the same goes for the defaults of a group", async () => {
    await using world = await manageWorld();
    const { context, storage } = world;
    const { key } = await created(world, "laptop");
    await Promise.all([
      editKey(context, key.id, { splits: { audio: true } }, operator),
      editKey(context, key.id, { splits: { input: true } }, operator),
    ]);
    expect((await storage.keys.get(key.id))?.splits).toEqual({ audio: true, input: true });
    await createGroup(context, { name: "team" }, operator);
    const [keys, groups] = [
      { ...unlimited, requests: 1 },
      { ...unlimited, requests: 2 },
    ];
    await Promise.all([
      editGroup(context, "team", { defaults: { keys } }, operator),
      editGroup(context, "team", { defaults: { groups } }, operator),
    ]);
    expect((await storage.groups.find("team"))?.defaults).toEqual({ keys, groups });
  });

  test("changes the given fields, and null clears one", async () => {
    await using world = await manageWorld();
    const { key } = await created(world, "laptop");
    await editKey(world.context, key.id, { owner: "ada", models: ["small-*"] }, operator);
    expect(await editKey(world.context, key.id, { name: "notebook", models: null }, operator)).toMatchObject({
      name: "notebook",
      owner: "ada",
      models: null,
    });
    expect(await world.audited()).toEqual(["key.change", "key.change", "key.create"]);
  });

  test("changes one split setting and keeps the other", async () => {
    await using world = await manageWorld();
    const { key } = await created(world, "laptop");
    await editKey(world.context, key.id, { splits: { input: true } }, operator);
    expect(await editKey(world.context, key.id, { splits: { audio: true } }, operator)).toMatchObject({
      splits: { audio: true, input: true },
    });
  });

  test("refuses a key of the configuration, a taken name and an expiry in the past", async () => {
    await using world = await manageWorld();
    const { key } = await created(world, "laptop");
    expect(codeAndField(await editKey(world.context, fileKey.id, { owner: "ada" }, operator))).toEqual(["in_file", null]);
    expect(codeAndField(await editKey(world.context, key.id, { name: "ci" }, operator))).toEqual(["conflict", "name"]);
    expect(codeAndField(await editKey(world.context, key.id, { expiresMs: 5 }, operator))).toEqual(["invalid_value", "expires_at"]);
    expect(await storageErrorKind(editKey(world.context, "nobody", { owner: "ada" }, operator))).toBe("missing");
  });

  test("says where a key of the configuration can be changed", async () => {
    await using world = await manageWorld();
    const refused = await editKey(world.context, fileKey.id, { owner: "ada" }, operator);
    expect((refused as ManageError).message).toBe(
      "Key ci is defined in sluice.yaml, line 7: change it there. A running gateway reloads its file by itself.",
    );
  });
});

describe("rotateKey", () => {
  test("adds a new token, and the old one works until the overlap is over", async () => {
    await using world = await manageWorld();
    const { key, token } = await created(world, "laptop");
    const rotated = (await rotateKey(world.context, key.id, 60_000, operator)) as KeyWithToken;
    expect(rotated.token).not.toBe(token);
    expect((await world.storage.keys.byDigest(`digest of ${rotated.token}`))?.tokenExpiresMs).toBeNull();
    expect((await world.storage.keys.byDigest(`digest of ${token}`))?.tokenExpiresMs).toBe(world.clock.nowMs + 60_000);
  });

  test("refuses a key of the configuration, one that is revoked and one that does not exist", async () => {
    await using world = await manageWorld();
    const { key } = await created(world, "laptop");
    await revokeKey(world.context, key.id, operator);
    expect(codeAndField(await rotateKey(world.context, fileKey.id, 0, operator))).toEqual(["in_file", null]);
    expect(await storageErrorKind(rotateKey(world.context, key.id, 0, operator))).toBe("conflict");
    expect(await storageErrorKind(rotateKey(world.context, "nobody", 0, operator))).toBe("missing");
  });
});

describe("revokeKey", () => {
  test("revokes for good, and changes nothing the second time", async () => {
    await using world = await manageWorld();
    const { key } = await created(world, "laptop");
    const revoked = await revokeKey(world.context, key.id, operator);
    expect(revoked).toMatchObject({ revokedMs: world.clock.nowMs });
    world.clock.nowMs += 1000;
    expect(await revokeKey(world.context, key.id, operator)).toEqual(revoked);
  });

  test("refuses a key of the configuration, and one that does not exist", async () => {
    await using world = await manageWorld();
    expect(codeAndField(await revokeKey(world.context, fileKey.id, operator))).toEqual(["in_file", null]);
    expect(await storageErrorKind(revokeKey(world.context, "nobody", operator))).toBe("missing");
  });
});

describe("a key is found", () => {
  test("by id in both sources, and by name too where that is allowed", async () => {
    await using world = await manageWorld();
    const { key } = await created(world, "laptop");
    expect(await keyById(world.context, fileKey.id)).toEqual({ source: "file", key: fileKey });
    expect(await keyById(world.context, key.id)).toEqual({ source: "store", key });
    expect(await keyById(world.context, "laptop")).toBeNull();
    expect(await keyByIdOrName(world.context, "laptop")).toEqual({ source: "store", key });
    expect(await keyByIdOrName(world.context, "ci")).toEqual({ source: "file", key: fileKey });
    expect(await keyByIdOrName(world.context, "nobody")).toBeNull();
  });

  test("by name for as many ids as may be looked up", async () => {
    await using world = await manageWorld();
    const [one, other] = [(await created(world, "one")).key, (await created(world, "other")).key];
    expect(await keyNames(world.context, [one.id, other.id, "nobody", fileKey.id], 1)).toEqual(
      new Map([
        [fileKey.id, "ci"],
        [one.id, "one"],
      ]),
    );
  });
});

describe("keyPage", () => {
  const all: KeyPageQuery = { search: null, revoked: false, after: null, limit: 2 };

  test("lists keys of the configuration by name, then those of the store by id, page by page", async () => {
    await using world = await manageWorld();
    const file = ["beta", "alpha", "gamma"].map((name) => ({ ...fileKey, id: `file:${name}`, name }));
    const stored = [(await created(world, "one")).key.id, (await created(world, "other")).key.id].toSorted();
    const context = { ...world.context, fileKeys: () => file };
    const ids: string[] = [];
    let after: string | null = null;
    do {
      const page = await keyPage(context, { ...all, after });
      ids.push(...page.keys.map(({ key }) => key.id));
      after = page.next;
    } while (after !== null);
    expect(ids).toEqual(["file:alpha", "file:beta", "file:gamma", ...stored]);
  });

  test("searches names and ids literally, in any case, and leaves out revoked keys unless asked", async () => {
    await using world = await manageWorld();
    await created(world, "50%");
    const { key } = await created(world, "Laptop%");
    await revokeKey(world.context, key.id, operator);
    // Ids are random letters and digits: what is searched for here cannot be in them by chance.
    const names = async (query: Partial<KeyPageQuery>): Promise<readonly string[]> =>
      (await keyPage(world.context, { ...all, limit: 10, ...query })).keys.map(({ key: { name } }) => name);
    expect(await names({ search: "%" })).toEqual(["50%"]);
    expect(await names({ search: "E:CI" })).toEqual(["ci"]);
    expect(await names({ search: "TOP%" })).toEqual([]);
    expect(await names({ search: "TOP%", revoked: true })).toEqual(["Laptop%"]);
  });
});

describe("a key is shown", () => {
  test("with its state, its limits in dollars and without its token", async () => {
    await using world = await manageWorld();
    const limits = { ...unlimited, requests: 60, budget: { nanos: 1_500_000_000, period: "day" as const } };
    const made = (await createKey(world.context, { name: "a", limits }, null, operator)) as KeyWithToken;
    const view = keyView({ source: "store", key: made.key }, world.clock.nowMs);
    expect(view).toMatchObject({ state: "active", source: "store", limits: { rpm: 60, budget_usd: 1.5, budget_period: "day" } });
    expect(view.created_at).toBe("2027-01-31T12:00:00.000Z");
    expect(JSON.stringify(view)).not.toContain(made.token);
  });

  test("as expired from its last moment on, and as revoked before that", () => {
    const known = { source: "file", key: { ...fileKey, expiresMs: 10 } } as const;
    expect([keyState(known, 9), keyState(known, 10)]).toEqual(["active", "expired"]);
    expect(keyView(known, 10)).toMatchObject({ state: "expired", owner: null, created_at: null, tokens: [] });
  });
});
