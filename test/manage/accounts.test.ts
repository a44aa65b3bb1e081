import { describe, expect, test } from "bun:test";
import {
  accountName,
  accountView,
  createAccount,
  createAdminToken,
  editAccount,
  passwordProblem,
  removeAccount,
  revokeAdminToken,
  tokenView,
} from "../../src/manage/accounts.ts";
import { defaultGroup } from "../../src/keys/stored-group.ts";
import { unguessableLength } from "../../src/manage/guessable.ts";
import { ManageError } from "../../src/manage/error.ts";
import { codeAndField, manageWorld, operator, storageErrorKind } from "../support/manage-world.ts";

const password = "correct zebra stapler 7";

describe("accountName", () => {
  test.each([
    [" Ada ", "ada"],
    ["a.b_c@d+e-f", "a.b_c@d+e-f"],
    ["", null],
    [".ada", null],
    ["ada lovelace", null],
    ["a".repeat(65), null],
    ["ädä", null],
  ])("%j is %j", (given, name) => {
    expect(accountName(given)).toBe(name);
  });
});

describe("passwordProblem", () => {
  test.each([
    ["too short", "eleven char"],
    ["too long", `x${"ab1 ".repeat(300)}`],
    ["mostly the name", "ada-lovelace-ada-lovelace"],
    ["a well-known word", "password-password"],
    ["a sequence", "abcdefghijklmnop"],
    ["a repetition", "abcabcabcabcabc"],
  ])("refuses a password that is %s", (_, given) => {
    expect(codeAndField(passwordProblem(given, "ada-lovelace"))).toEqual(["invalid_value", "password"]);
  });

  test("accepts a few unrelated words", () => {
    expect(passwordProblem(password, "ada")).toBeNull();
  });
});

test("what a guesser tries first does not count for the length of a secret", () => {
  expect(unguessableLength("Admin123123")).toBe(0);
  expect(unguessableLength("zqkwu")).toBe(5);
  expect(unguessableLength("ada-zqkwu", ["ADA"])).toBe(6);
});

describe("accounts", () => {
  test("are created with a hash of the password", async () => {
    await using world = await manageWorld();
    expect(await createAccount(world.context, { name: "ada", role: "admin", password }, operator)).toMatchObject({
      name: "ada",
      role: "admin",
    });
    expect((await world.storage.accounts.passwordHash("ada"))?.hash).toBe(`hash of ${password}`);
    expect(await world.audited()).toEqual(["account.create"]);
  });

  test("are not created with a bad password or a taken name", async () => {
    await using world = await manageWorld();
    const create = (given: string) => createAccount(world.context, { name: "ada", role: "admin", password: given }, operator);
    expect(codeAndField(await create("short"))).toEqual(["invalid_value", "password"]);
    expect(await world.storage.accounts.count()).toBe(0);
    await create(password);
    expect(await storageErrorKind(create(password))).toBe("conflict");
  });

  test("change in the given fields only", async () => {
    await using world = await manageWorld();
    await createAccount(world.context, { name: "ada", role: "admin", password }, operator);
    await createAccount(world.context, { name: "bob", role: "admin", password }, operator);
    expect(await editAccount(world.context, "bob", { role: "viewer" }, operator)).toMatchObject({ role: "viewer", disabledMs: null });
    expect(await editAccount(world.context, "bob", { disabled: true }, operator)).toMatchObject({
      role: "viewer",
      disabledMs: world.clock.nowMs,
    });
    expect((await world.storage.accounts.passwordHash("bob"))?.hash).toBe(`hash of ${password}`);
    await editAccount(world.context, "bob", { password: `${password}!` }, operator);
    expect((await world.storage.accounts.passwordHash("bob"))?.hash).toBe(`hash of ${password}!`);
  });

  test("refuse a bad password, an unknown name, and the end of the last administrator", async () => {
    await using world = await manageWorld();
    await createAccount(world.context, { name: "ada", role: "admin", password }, operator);
    expect(codeAndField(await editAccount(world.context, "ada", { password: "short" }, operator))).toEqual(["invalid_value", "password"]);
    expect(await storageErrorKind(editAccount(world.context, "nobody", { disabled: true }, operator))).toBe("missing");
    expect(await storageErrorKind(editAccount(world.context, "ada", { role: "viewer" }, operator))).toBe("conflict");
    expect(await storageErrorKind(removeAccount(world.context, "ada", operator))).toBe("conflict");
    expect(await storageErrorKind(removeAccount(world.context, "nobody", operator))).toBe("missing");
  });

  test("get no role with a group that it cannot have, instead of a role without limits", async () => {
    await using world = await manageWorld();
    const group = { ...defaultGroup, name: "web" };
    await world.storage.groups.create("grp_web", group, [], operator);
    await createAccount(world.context, { name: "ada", role: "admin", password }, operator);
    await createAccount(world.context, { name: "eve", role: "group_admin", group: "web", password }, operator);
    for (const role of ["admin", "viewer"] as const) {
      expect(await storageErrorKind(editAccount(world.context, "eve", { role, group: "web" }, operator))).toBe("invalid");
    }
    expect(await world.storage.accounts.list()).toContainEqual(
      expect.objectContaining({ name: "eve", role: "group_admin", group: "grp_web" }),
    );
    expect(await editAccount(world.context, "eve", { role: "viewer" }, operator)).not.toHaveProperty("group");
    expect(await editAccount(world.context, "eve", { role: "group_admin", group: "web" }, operator)).toMatchObject({ group: "grp_web" });
  });

  test("are removed while another administrator is left", async () => {
    await using world = await manageWorld();
    await createAccount(world.context, { name: "ada", role: "admin", password }, operator);
    await createAccount(world.context, { name: "bob", role: "admin", password }, operator);
    await removeAccount(world.context, "bob", operator);
    expect((await world.storage.accounts.list()).map(({ name }) => name)).toEqual(["ada"]);
  });

  test("are shown without anything secret", async () => {
    await using world = await manageWorld();
    await createAccount(world.context, { name: "ada", role: "admin", password }, operator);
    expect((await world.storage.accounts.list()).map(accountView)).toEqual([
      { name: "ada", role: "admin", created_at: "2027-01-31T12:00:00.000Z", disabled_at: null },
    ]);
  });
});

describe("admin tokens", () => {
  test("are created with a secret of which the store has the hash, and revoked", async () => {
    await using world = await manageWorld();
    const made = await createAdminToken(world.context, { name: "monitoring", role: "viewer" }, operator);
    if (made instanceof ManageError) throw new Error(made.message);
    const { created, secret } = made;
    expect(secret).toStartWith("sk-gwa_");
    expect(await world.storage.accounts.token(`admin digest of ${secret}`)).toEqual(created);
    expect(tokenView(created)).toEqual({
      name: "monitoring",
      role: "viewer",
      last4: secret.slice(-4),
      created_at: "2027-01-31T12:00:00.000Z",
      revoked_at: null,
    });
    await revokeAdminToken(world.context, "monitoring", operator);
    expect(await world.storage.accounts.token(`admin digest of ${secret}`)).toBeNull();
    expect(await world.storage.accounts.tokens()).toMatchObject([{ name: "monitoring", revokedMs: world.clock.nowMs }]);
  });

  test("refuse a taken name, and the revocation of one that does not exist", async () => {
    await using world = await manageWorld();
    await createAdminToken(world.context, { name: "monitoring", role: "viewer" }, operator);
    expect(await storageErrorKind(createAdminToken(world.context, { name: "monitoring", role: "admin" }, operator))).toBe("conflict");
    expect(await storageErrorKind(revokeAdminToken(world.context, "nobody", operator))).toBe("missing");
  });
});
