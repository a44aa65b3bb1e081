import { expect, test } from "bun:test";
import { StoredConfiguration, type RuntimeRules } from "../../../src/app/configuration/stored-configuration.ts";
import type { ChannelSetting } from "../../../src/config/settings.ts";
import type { StoredChannel } from "../../../src/gateway/storage.ts";
import { makeChannelSecrets } from "../../../src/store/secrets/channel-secrets.ts";

const channelSecrets = makeChannelSecrets({ version: "1", bytes: new Uint8Array(32) });

/** A store with channels, which counts how often they are listed. */
function storeOf(rows: Record<string, { readonly models: readonly string[] }>) {
  const store = {
    rows,
    version: 0,
    lists: 0,
    errors: [] as unknown[],
    remembered: [] as string[],
    rules: { allowPrivate: true, localModels: [], own: [] } as RuntimeRules,
  };
  const storage = {
    channels: {
      version: () => Promise.resolve(String(store.version)),
      list: () => {
        store.lists += 1;
        return Promise.resolve(Object.entries(store.rows).map(([name, { models }]) => channel(name, models)));
      },
    },
    prices: { list: () => Promise.resolve([]) },
    blockedSubjects: { list: () => Promise.resolve([]) },
  };
  const configuration = new StoredConfiguration(
    { storage, channelSecrets } as unknown as ConstructorParameters<typeof StoredConfiguration>[0],
    { error: (_event, fields) => void store.errors.push(fields) },
    () => store.rules,
    ({ name }) => void store.remembered.push(name),
  );
  return { store, configuration };
}

const sealed = new Map<string, string>();

function channel(name: string, models: readonly string[]): StoredChannel {
  const secret = sealed.get(name) ?? channelSecrets.encrypt(name, ["secret"]);
  sealed.set(name, secret);
  return {
    name,
    entry: { base_url: "http://10.0.0.1/v1", models: [...models] },
    sealed: secret,
    last4: ["cret"],
    createdMs: 0,
    updatedMs: 0,
  };
}

const named = (channels: readonly ChannelSetting[], name: string): ChannelSetting | undefined => channels.find((one) => one.name === name);

test("channels of the store are not listed again when something else has changed", async () => {
  const { store, configuration } = storeOf({ a: { models: ["one"] }, b: { models: ["two"] } });
  expect(await configuration.read()).toBe(true);
  expect(await configuration.read()).toBe(false);
  expect(store.lists).toBe(1);
  expect(configuration.channels.map(({ name }) => name)).toEqual(["a", "b"]);
});

test("of the stored channels only those that changed are read anew, and a removed one is gone", async () => {
  const { store, configuration } = storeOf({ a: { models: ["one"] }, b: { models: ["two"] }, c: { models: ["three"] } });
  await configuration.read();
  const before = configuration.channels;
  store.rows = { a: { models: ["one"] }, b: { models: ["other"] } };
  store.version += 1;
  expect(await configuration.read()).toBe(true);
  expect(named(configuration.channels, "a")).toBe(named(before, "a"));
  expect(named(configuration.channels, "b")).not.toBe(named(before, "b"));
  expect(configuration.channels.map(({ name }) => name)).toEqual(["a", "b"]);
  expect(store.remembered).toEqual(["a", "b", "c", "b"]);
});

test("a stored channel that cannot be used is logged once, and again under other rules", async () => {
  const { store, configuration } = storeOf({ a: { models: ["one"] } });
  store.rules = { ...store.rules, allowPrivate: false };
  expect(await configuration.read()).toBe(true);
  expect(configuration.channels).toEqual([]);
  store.version += 1;
  expect(await configuration.read()).toBe(false);
  expect(store.errors).toHaveLength(1);
  store.rules = { ...store.rules, allowPrivate: true };
  expect(await configuration.read()).toBe(true);
  expect(configuration.channels.map(({ name }) => name)).toEqual(["a"]);
});
