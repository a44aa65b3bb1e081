import { rmSync } from "node:fs";
import { StorageError, type Actor, type Storage } from "../../src/gateway/storage.ts";
import type { Key } from "../../src/keys/key.ts";
import { adminTokenPrefix, makeToken } from "../../src/keys/token.ts";
import { unlimited } from "../../src/limits/limits.ts";
import type { ChannelContext, ChannelStatus, RunningChannels } from "../../src/manage/channel-context.ts";
import type { ManageError } from "../../src/manage/error.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { makeStorage } from "../../src/store/storage.ts";
import { migratedDataDir } from "./data-dirs.ts";

export const operator: Actor = { kind: "admin", name: "ada" };

/** The key of a configuration file, and its token. */
export const fileKey: Key = {
  id: "file:ci",
  name: "ci",
  models: null,
  operations: null,
  channels: null,
  expiresMs: null,
  splits: { audio: false, input: false },
  group: null,
  limits: unlimited,
};
export const fileToken = "file-token-0123456789abcdefghijklmnop";

/** What management actions are called with, on a new SQLite store. */
export interface ManageWorld extends AsyncDisposable {
  readonly context: ChannelContext;
  readonly storage: Storage;
  readonly database: Database;
  readonly clock: { nowMs: number };
  /** The channels that a running gateway would report. */
  readonly running: ChannelStatus[];
  /** The actions in the audit log, newest first. */
  audited(): Promise<readonly string[]>;
}

/** Hashes are readable, so that a test can see what was hashed. */
export async function manageWorld(channels: Partial<RunningChannels> = {}): Promise<ManageWorld> {
  const clock = { nowMs: Date.UTC(2027, 0, 31, 12) };
  const running: ChannelStatus[] = [];
  const dataDir = await migratedDataDir();
  const database = await openDatabase({ store: "sqlite", dataDir });
  const storage = makeStorage(database, { wallMs: () => clock.nowMs, newId: () => Bun.randomUUIDv7() });
  const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));
  return {
    clock,
    running,
    storage,
    database,
    context: {
      storage,
      reports: storage,
      wallMs: () => clock.nowMs,
      digest: (token) => `digest of ${token}`,
      adminDigest: (token) => `admin digest of ${token}`,
      makeKeyToken: () => makeToken(random),
      makeAdminToken: () => makeToken(random, adminTokenPrefix),
      hashPassword: async (password) => `hash of ${password}`,
      definedAt: () => "sluice.yaml, line 7",
      fileKeys: () => [fileKey],
      fileGroups: () => [],
      tokenIssuers: () => ["jobs"],
      opensFileKey: (token) => token === fileToken,
      prices: () => ({ shipped: [], file: [] }),
      channels: {
        isInFile: (name) => running.some((channel) => channel.name === name && channel.source === "file"),
        check: async () => [],
        seal: (name, secrets) => `sealed ${name} ${secrets.join(" ")}`,
        status: () => running,
        test: async () => null,
        forget: () => 0,
        clear: () => 0,
        call: async () => "absent" as const,
        ...channels,
      },
    },
    audited: async () => {
      const all = { action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 100 };
      return (await storage.audit.list(all)).map(({ action }) => action);
    },
    [Symbol.asyncDispose]: async () => {
      await database.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** The code of an error, and the field that it is about. */
export function codeAndField(result: unknown): readonly [string, string | null] | unknown {
  const { code, field } = result as ManageError;
  return code === undefined ? result : [code, field];
}

export function channelStatus(name: string, source: ChannelStatus["source"]): ChannelStatus {
  return {
    name,
    source,
    provider: null,
    baseUrl: "https://api.example.com/v1",
    tier: 1,
    weight: 1,
    tags: [],
    models: ["fast"],
    state: "ready",
    troubles: [],
    learned: [],
    running: 0,
    concurrencyMax: 512,
  };
}

/** The kind of error that the store reported; `none` where it did not. */
export async function storageErrorKind(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "none",
    (error: unknown) => (error instanceof StorageError ? error.kind : String(error)),
  );
}
