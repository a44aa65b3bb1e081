import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Actor, BudgetHoldRequest, Storage } from "../../../src/gateway/storage.ts";
import { defaultGroup } from "../../../src/keys/stored-group.ts";
import { defaultKey, type HashedToken } from "../../../src/keys/stored-key.ts";
import { adminTokenPrefix, makeToken, tokenPrefix } from "../../../src/keys/token.ts";
import { unlimited } from "../../../src/limits/limits.ts";
import type { Database } from "../../../src/store/database.ts";
import { SlotDrain } from "../../../src/store/drain/drain.ts";
import { segmentFile } from "../../../src/store/journal/folder.ts";
import { makeChannelSecrets, type ChannelSecrets } from "../../../src/store/secrets/channel-secrets.ts";
import { openMasterKey, type MasterKey } from "../../../src/store/secrets/master-key.ts";
import { makeStorage } from "../../../src/store/storage.ts";
import { releaseHolds, settleHolds } from "../../../src/store/tables/budget-table.ts";
import { SqlCounts } from "../../../src/store/tables/count-table.ts";
import { SqlHints } from "../../../src/store/tables/hint-table.ts";
import { killedHolder, sampleMs, segmentOf, storedReceipts } from "./sample-receipts.ts";

/** Opens the sample stores and nothing else. */
export const sampleMasterKey = new Bun.CryptoHasher("sha256").update("sample stores").digest("hex");
export const sampleHolder = "running-process";
export const budgetNanos = 1_000_000_000;
export const by: Actor = { kind: "cli", name: "ada", address: "192.0.2.7" };

/** The tokens of the sample store, the same for every version: their secrets are made of one byte each. */
export const sampleTokens = {
  plain: tokenOf(1),
  budgeted: tokenOf(2),
  rotatedBefore: tokenOf(3),
  rotated: tokenOf(4),
  revoked: tokenOf(5),
  admin: tokenOf(6, adminTokenPrefix),
};

function tokenOf(byte: number, prefix = tokenPrefix): string {
  return makeToken((count) => new Uint8Array(count).fill(byte), prefix).token;
}

/** A store that was opened with the sample master key, at the sample's time unless `nowMs` says otherwise. */
export interface OpenedSample {
  readonly database: Database;
  readonly storage: Storage;
  readonly master: MasterKey;
  readonly secrets: ChannelSecrets;
}

export async function openSample(database: Database, dataDir: string, ids: Iterator<string> = idsOf("5")): Promise<OpenedSample> {
  const master = await openMasterKey({ dataDir, given: sampleMasterKey, database });
  const secrets = makeChannelSecrets(master.sealing);
  const newId = (): string => String(ids.next().value);
  return { database, storage: makeStorage(database, { wallMs: () => sampleMs, newId, channelSecrets: secrets }), master, secrets };
}

/** Ids that sort in the order of their making. */
export function* idsOf(last: string): Generator<string> {
  for (let at = 0; ; at += 1) yield `019a3f00-0000-7000-8000-${last}${String(at).padStart(12 - last.length, "0")}`;
}

export const budgetRequest: BudgetHoldRequest = {
  budget: "budgeted",
  ownerId: "budgeted",
  models: null,
  limitNanos: budgetNanos,
  sinceMs: 0,
  holder: sampleHolder,
  need: 1_000_000,
  wish: 10_000_000,
  ttlMs: 600_000,
};

/** Something of everything that a store holds. */
export async function fillSample(opened: OpenedSample, folder: string): Promise<void> {
  const { database, storage, master, secrets } = opened;
  const hashed = (token: string): HashedToken => ({ digest: master.digest(token), last4: token.slice(-4) });
  const budget = { nanos: budgetNanos, period: "total" } as const;
  const models = [{ pattern: "o3*", requests: 5, tokens: null, audioSeconds: null, characters: null, concurrency: null, budget: null }];
  await storage.keys.create(
    "plain",
    { ...defaultKey, name: "Plain key", owner: "ada", note: "made first" },
    hashed(sampleTokens.plain),
    by,
  );
  await storage.keys.create(
    "budgeted",
    { ...defaultKey, name: "Budgeted", models: ["gpt-*"], operations: ["chat"], limits: { ...unlimited, requests: 100, budget, models } },
    hashed(sampleTokens.budgeted),
    by,
  );
  await storage.keys.create("rotated", { ...defaultKey, name: "Rotated", channels: ["main"] }, hashed(sampleTokens.rotatedBefore), by);
  await storage.keys.rotate("rotated", hashed(sampleTokens.rotated), 86_400_000, by);
  await storage.keys.create("revoked", { ...defaultKey, name: "Revoked" }, hashed(sampleTokens.revoked), by);
  await storage.keys.revoke("revoked", by);
  await storage.keys.used(new Map([["plain", sampleMs]]));
  const team = { ...defaultGroup, name: "Team", limits: { ...unlimited, requests: 600, budget } };
  await storage.groups.create("grp_team", team, [], by);
  const entry = { provider: "openai", base_url: "https://upstream.example/v1", models: ["gpt-4o"], headers: { "x-team": "blue" } };
  await storage.channels.create({ name: "spare", entry, sealed: secrets.encrypt("spare", ["sk-upstream-1234"]), last4: ["1234"] }, by);
  const price = { provider: "openai", model: "gpt-4o", fromMs: Date.UTC(2026, 0, 1), note: "list price" };
  await storage.prices.set({ ...price, rates: { input: 2_500_000_000, output: 10_000_000_000 } }, by);
  await storage.accounts.create({ name: "ada", role: "admin", passwordHash: "$scrypt$not-a-real-hash" }, by);
  const mark = { digest: master.adminDigest(sampleTokens.admin), last4: sampleTokens.admin.slice(-4) };
  await storage.accounts.createToken({ name: "reports", role: "viewer", mark }, by);
  const session = {
    account: "ada",
    issuer: null,
    subject: null,
    role: "admin",
    csrf: "csrf-1",
    createdMs: sampleMs,
    seenMs: sampleMs,
  } as const;
  await storage.accounts.openSession({ ...session, digest: master.adminDigest("session-1") });
  const provided = { ...session, account: "oidc:grace", issuer: "https://login.example.com", subject: "grace-1" };
  await storage.accounts.openSession({ ...provided, digest: master.adminDigest("session-2") });
  await storage.blockedSubjects.block("ci", "job-1", by);
  for (const holder of [sampleHolder, killedHolder]) await storage.budgets.hold({ ...budgetRequest, holder });
  await drainSegment(database, folder, segmentOf(sampleHolder, "segment-1", [], storedReceipts), "live");
  const clock = { wallMs: () => sampleMs };
  await new SqlHints(database, clock).publish({ scope: "channel main", cause: "rate_limited", forMs: 60_000 });
  const counts = new SqlCounts(database, clock);
  await counts.heartbeat(sampleHolder, 60_000);
  await counts.take(
    [{ id: "budgeted rpm", limit: 100, need: 1, wish: 10, sharers: 2 }],
    [{ id: "budgeted concurrency", limit: 5, call: "call-1", ttlMs: 30_000 }],
  );
}

/** Moves a segment into the store as the process that writes it does (`live`), or as one that found it (`dead`). */
export async function drainSegment(database: Database, folder: string, bytes: Uint8Array, writer: "live" | "dead"): Promise<void> {
  const slot = join(folder, "1");
  mkdirSync(slot, { recursive: true });
  writeFileSync(segmentFile(slot, 1), bytes);
  const options = { database, settle: settleHolds, release: releaseHolds, report: refuse };
  const drain = new SlotDrain(options, slot, writer === "live" ? 1 : null);
  while (await drain.step());
  drain.close();
}

function refuse(message: string): never {
  throw new Error(message);
}
