import type { OpenedSample } from "./sample-store.ts";
import { sampleMs } from "./sample-receipts.ts";
import { sampleTokens } from "./sample-store.ts";

/** Everything that an operator or a client can see of a store. The next version must find all of it again. */
export async function factsOf({ storage, master, secrets }: OpenedSample): Promise<Readonly<Record<string, unknown>>> {
  const opens = Object.entries(sampleTokens).map(async ([name, token]) => [
    name,
    (await storage.keys.byDigest(master.digest(token)))?.key.id,
  ]);
  const keys = await storage.keys.list({ search: null, revoked: true, after: null, limit: 100 });
  const channels = await storage.channels.list();
  const nothing = { model: null, channel: null, sinceMs: null, untilMs: null };
  const receipts = { ...nothing, state: null, before: null, limit: 200 };
  const ofKeys = keys.map(async ({ id }) => [id, (await storage.receipts.list({ ...receipts, keyId: id })).map((one) => one.id)]);
  return {
    keys,
    groups: await storage.groups.list(),
    opens: Object.fromEntries(await Promise.all(opens)),
    channels,
    secrets: channels.map(({ name, sealed }) => (sealed === null ? null : secrets.decrypt(name, sealed))),
    prices: await storage.prices.list(),
    accounts: await storage.accounts.list(),
    adminTokens: await storage.accounts.tokens(),
    adminToken: (await storage.accounts.token(master.adminDigest(sampleTokens.admin)))?.name,
    session: (await storage.accounts.session(master.adminDigest("session-1")))?.account,
    providedSession: await storage.accounts.session(master.adminDigest("session-2")),
    blockedSubjects: await storage.blockedSubjects.list(),
    audit: await storage.audit.list({ action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 100 }),
    receipts: await storage.receipts.list({ ...receipts, keyId: null }),
    receiptsOfKeys: Object.fromEntries(await Promise.all(ofKeys)),
    byRequest: (await storage.receipts.find("chosen-by-the-client"))?.id,
    usageByDay: await storage.receipts.usage({ ...nothing, keyId: null, by: ["key", "model", "channel", "operation", "day"] }),
    firstContents: await storage.receipts.firstContents(0, null),
    outcomesByDay: await storage.receipts.outcomes({ ...nothing, keyId: null, by: ["key", "model", "channel", "day"] }),
    modelTimes: await storage.receipts.modelTimes({ groupId: null, model: "gpt-4o", sinceMs: null, untilMs: null }),
    upstreamUse: await storage.receipts.upstreamUse(0, sampleMs + 86_400_000),
    usageByHour: await storage.receipts.usage({ ...nothing, keyId: null, by: ["key", "hour"] }),
  };
}
