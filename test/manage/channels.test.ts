import { describe, expect, test } from "bun:test";
import { ManageError } from "../../src/manage/error.ts";
import { addChannel, channelRevision, editChannel, forgetChannelLessons, removeChannel, testChannel } from "../../src/manage/channels.ts";
import { hiddenValue } from "../../src/manage/channel-secrets.ts";
import type { StoredChannel } from "../../src/gateway/storage.ts";
import { channelStatus, codeAndField, manageWorld, operator, type ManageWorld, storageErrorKind } from "../support/manage-world.ts";

const entry = { base_url: "https://api.example.com/v1", headers: { "x-team": "blue" }, tier: 2 };
const secret = "sk-upstream-0123456789-wxyz";
const always = (): boolean => true;

async function added({ context }: ManageWorld, name = "main", secrets: readonly string[] = [secret]): Promise<StoredChannel> {
  const channel = await addChannel(context, { name, entry, secrets }, operator);
  if (channel instanceof ManageError) throw new Error(channel.message);
  return channel;
}

describe("addChannel", () => {
  test("stores the settings with sealed secrets, and only the end of a long one", async () => {
    await using world = await manageWorld();
    expect(await added(world, "main", [secret, "short"])).toMatchObject({
      entry,
      sealed: `sealed main ${secret} short`,
      last4: ["wxyz", "****"],
    });
    expect(await world.audited()).toEqual(["channel.create"]);
  });

  test("needs no secrets", async () => {
    await using world = await manageWorld();
    expect(await added(world, "main", [])).toMatchObject({ sealed: null, last4: [] });
  });

  test.each([
    ["a name inside the settings", { ...entry, name: "other" }, ["invalid_value", "entry.name"]],
    ["keys inside the settings", { ...entry, api_key: secret }, ["invalid_channel", "entry.api_key"]],
    ["several keys inside the settings", { ...entry, api_keys: [secret] }, ["invalid_channel", "entry.api_keys"]],
    ["a file of keys", { ...entry, api_key_file: "/etc/passwd" }, ["invalid_channel", "entry.api_key_file"]],
    ["a hidden header value", { ...entry, headers: { "x-team": hiddenValue } }, ["invalid_value", "entry.headers"]],
  ])("refuses %s", async (_, given, error) => {
    await using world = await manageWorld();
    expect(codeAndField(await addChannel(world.context, { name: "main", entry: given, secrets: [] }, operator))).toEqual(error);
    expect(await world.storage.channels.list()).toEqual([]);
  });

  test("refuses the name of a channel in the configuration file, and leaves stored names to the store", async () => {
    await using world = await manageWorld();
    world.running.push(channelStatus("main", "file"));
    expect(codeAndField(await addChannel(world.context, { name: "main", entry, secrets: [] }, operator))).toEqual(["conflict", "name"]);
    await added(world, "other");
    expect(await storageErrorKind(addChannel(world.context, { name: "other", entry, secrets: [] }, operator))).toBe("conflict");
  });

  test("reports what the running gateway cannot use, at most five problems, and the code of an address", async () => {
    const paths = ["base_url", "tier", "a", "b", "c", "d"];
    await using world = await manageWorld({ check: async () => paths.map((path) => ({ path, message: `wrong ${path}.` })) });
    const refused = await addChannel(world.context, { name: "main", entry, secrets: [] }, operator);
    expect(codeAndField(refused)).toEqual(["url_not_allowed", "entry.base_url"]);
    expect((refused as ManageError).message).toBe("base_url: wrong base_url. tier: wrong tier. a: wrong a. b: wrong b. c: wrong c.");
  });
});

describe("editChannel", () => {
  test("merges settings: null removes one, and an absent one stays", async () => {
    await using world = await manageWorld();
    await added(world);
    const changed = await editChannel(world.context, "main", { entry: { tier: null, weight: 3 } }, always, operator);
    expect(changed).toMatchObject({ entry: { base_url: entry.base_url, headers: entry.headers, weight: 3 }, last4: ["wxyz"] });
    expect((changed as StoredChannel).entry).not.toHaveProperty("tier");
  });

  test("keeps header values that were shown as hidden", async () => {
    await using world = await manageWorld();
    await added(world);
    const headers = { "x-team": hiddenValue, "x-new": "1" };
    expect(await editChannel(world.context, "main", { entry: { headers } }, always, operator)).toMatchObject({
      entry: { headers: { "x-team": "blue", "x-new": "1" } },
    });
  });

  test("checks the settings with placeholders where the secrets stay", async () => {
    let checked: readonly string[] = [];
    await using world = await manageWorld({
      check: async (_, secrets) => {
        checked = secrets;
        return [];
      },
    });
    await added(world, "main", [secret, `${secret}2`]);
    await editChannel(world.context, "main", { entry: { tier: 3 } }, always, operator);
    expect(new Set(checked).size).toBe(2);
    expect(checked).not.toContain(secret);
  });

  test("with a new address, secrets and headers must be given again", async () => {
    await using world = await manageWorld();
    await added(world);
    const moved = { base_url: "https://elsewhere.example.com/v1" };
    const edit = (more: object) => editChannel(world.context, "main", more, always, operator);
    expect(codeAndField(await edit({ entry: moved }))).toEqual(["secrets_needed", "secrets"]);
    expect(codeAndField(await edit({ entry: moved, secrets: ["sk-new"] }))).toEqual(["secrets_needed", "entry.headers"]);
    const hidden = { ...moved, headers: { "x-team": hiddenValue } };
    expect(codeAndField(await edit({ entry: hidden, secrets: ["sk-new"] }))).toEqual(["secrets_needed", "entry.headers"]);
    expect(await world.storage.channels.get("main")).toMatchObject({ entry });
    expect(await edit({ entry: { ...moved, headers: null }, secrets: ["sk-new"] })).toMatchObject({ entry: moved });
  });

  test("is refused if the channel has another revision than expected", async () => {
    await using world = await manageWorld();
    const channel = await added(world);
    const seen: string[] = [];
    const never = (revision: string): boolean => {
      seen.push(revision);
      return false;
    };
    const refused = await editChannel(world.context, "main", { entry: { tier: 9 } }, never, operator);
    expect(codeAndField(refused)).toEqual(["precondition_failed", "if-match"]);
    expect(seen).toEqual([channelRevision(world.context, channel)]);
  });

  test("is refused for a channel of the configuration file, and for one that does not exist", async () => {
    await using world = await manageWorld();
    world.running.push(channelStatus("main", "file"));
    expect(codeAndField(await editChannel(world.context, "main", { entry: {} }, always, operator))).toEqual(["in_file", null]);
    expect(await storageErrorKind(editChannel(world.context, "nobody", { entry: {} }, always, operator))).toBe("missing");
  });
});

describe("removeChannel", () => {
  test("removes a channel of the store, also one that the configuration file hides", async () => {
    await using world = await manageWorld();
    await added(world);
    world.running.push(channelStatus("main", "file"));
    expect(await removeChannel(world.context, "main", operator)).toBeNull();
    expect(codeAndField(await removeChannel(world.context, "main", operator))).toEqual(["in_file", null]);
    expect(await storageErrorKind(removeChannel(world.context, "nobody", operator))).toBe("missing");
  });
});

describe("testChannel", () => {
  test("returns the outcome, or why there is none", async () => {
    const outcome = { ok: true, status: 200, code: "ok", tookMs: 5 };
    await using world = await manageWorld({ test: async (name) => (name === "main" ? outcome : null) });
    await added(world, "unused");
    expect(await testChannel(world.context, "main")).toEqual(outcome);
    expect(codeAndField(await testChannel(world.context, "unused"))).toEqual(["not_in_use", null]);
    expect(codeAndField(await testChannel(world.context, "nobody"))).toEqual(["not_found", null]);
  });
});

describe("forgetChannelLessons", () => {
  test("forgets and notes it in the audit log, for channels of both sources only", async () => {
    await using world = await manageWorld({ forget: () => 2 });
    world.running.push(channelStatus("file", "file"));
    expect(await forgetChannelLessons(world.context, "file", operator)).toBe(2);
    expect(await world.audited()).toEqual(["channel.forget"]);
    expect(codeAndField(await forgetChannelLessons(world.context, "nobody", operator))).toEqual(["not_found", null]);
  });
});

test("the revision of a channel changes with its settings and its secrets", async () => {
  await using world = await manageWorld();
  const channel = await added(world);
  const revisions = [channel, { ...channel, entry: {} }, { ...channel, sealed: "other" }].map((one) => channelRevision(world.context, one));
  expect(new Set(revisions).size).toBe(1);
  const real = { ...world.context, adminDigest: (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex") };
  expect(new Set([channel, { ...channel, entry: {} }, { ...channel, sealed: "other" }].map((one) => channelRevision(real, one))).size).toBe(
    3,
  );
});
