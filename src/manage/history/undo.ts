import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import type { Actor, AuditEntry } from "../../gateway/storage.ts";
import { editAccount, removeAccount, revokeAdminToken } from "../accounts.ts";
import { blockSubject, unblockSubject } from "../blocked-subjects.ts";
import type { ChannelEditContext } from "../channel-context.ts";
import { addChannel, editChannel, noSuchChannel, removeChannel } from "../channels.ts";
import { ManageError } from "../error.ts";
import { editGroup, removeGroup } from "../groups.ts";
import { editKey, revokeKey } from "../keys.ts";
import { removePrice, setPrice } from "../prices.ts";
import { sameValue } from "./field-changes.ts";
import { undoPlanOf, type FieldValues, type UndoPlan, type UndoStep } from "./undo-plan.ts";

/** What was taken back. */
export interface UndoneChange {
  readonly entry: AuditEntry;
  readonly plan: UndoPlan;
}

/**
 * Takes a change back, unless what it changed has changed again since: then nobody can tell what is wanted, and the answer says what
 * is there now. It is one transaction, and as every change it is in the audit log.
 */
export async function undoChange(
  context: ChannelEditContext,
  id: string,
  secrets: readonly string[] | null,
  actor: Actor,
): Promise<UndoneChange | ManageError> {
  const entry = await context.storage.audit.get(id);
  if (entry === null) return new ManageError("not_found", "There is no such entry in the audit log.");
  const plan = undoPlanOf(entry);
  if ("why" in plan) return new ManageError("conflict", `This cannot be undone. ${plan.why}`);
  if (plan.needsSecrets && (secrets === null || secrets.length === 0)) return secretsNeeded;
  if (!plan.needsSecrets && secrets !== null) return secretsUnneeded;
  try {
    return await context.storage.together(async (storage) => {
      const inside = { ...context, storage, reports: storage };
      const problem = await run(inside, entry, plan.step, secrets, actor);
      // Thrown, so that the transaction is rolled back.
      if (problem instanceof ManageError) throw new UndoRefused(problem);
      await storage.audit.note("audit.undo", entry.subject, { entry: entry.id, action: entry.action }, actor);
      return { entry, plan };
    });
  } catch (error) {
    if (error instanceof UndoRefused) return error.reason;
    throw error;
  }
}

class UndoRefused extends Error {
  constructor(readonly reason: ManageError) {
    super(reason.message);
  }
}

const secretsNeeded = new ManageError(
  "secrets_needed",
  "Secrets that were replaced or removed are not kept: give those of the channel again as 'secrets'.",
  "secrets",
);
const secretsUnneeded = new ManageError("invalid_value", "This needs no secrets: leave 'secrets' out.", "secrets");

async function run(
  context: ChannelEditContext,
  { subject, atMs }: AuditEntry,
  step: UndoStep,
  secrets: readonly string[] | null,
  actor: Actor,
): Promise<unknown> {
  const { storage } = context;
  switch (step.kind) {
    case "edit":
      return editBack(context, subject, step, secrets, actor);
    case "revoke_key":
      if ((await storage.keys.get(subject))?.revokedMs != null) return gone("The key is revoked already.");
      return revokeKey(context, subject, actor);
    case "revoke_token": {
      // The name of a revoked token can be used again.
      const token = (await storage.accounts.tokens()).find(({ name }) => name === subject);
      if (token === undefined || token.revokedMs !== null) return gone("The token is revoked already.");
      if (step.last4 !== null && token.last4 !== step.last4)
        return gone("The token is revoked already, and another token has its name now.");
      return revokeAdminToken(context, subject, actor);
    }
    case "remove_group":
      return removeGroup(context, subject, actor);
    case "restore_group":
      return storage.groups.restore(subject, context.fileGroups(), actor);
    case "remove_account": {
      const account = (await storage.accounts.list()).find(({ name }) => name === subject);
      if (account === undefined) return gone("The account does not exist any more.");
      if (account.createdMs > atMs) return gone("The account does not exist any more, and another account has its name now.");
      return removeAccount(context, subject, actor);
    }
    case "remove_channel": {
      const channel = await storage.channels.get(subject);
      if (channel === null) return noSuchChannel;
      const now = entryWithoutSecrets(channel.entry);
      if (!sameValue(now, step.settings)) return changedSince("The channel", { settings: now });
      // Secrets are not kept: those of now must not go with a channel that had others when it was added.
      if (step.last4 !== null && !sameValue(channel.last4, step.last4)) return changedSince("The channel", { secrets: channel.last4 });
      return removeChannel(context, subject, actor);
    }
    case "add_channel":
      return addChannel(context, { name: subject, entry: step.settings, secrets: secrets ?? [] }, actor);
    case "price":
      return priceBack(context, step, actor);
    case "block":
      return blockSubject(context, subject, step.subject, actor);
    case "unblock":
      return unblockSubject(context, subject, step.subject, actor);
    case "allow_local": {
      const now = await storage.accounts.localUntilMs();
      if (now !== step.untilMs.to) return changedSince("The time", { until_ms: now });
      return storage.accounts.allowLocal(Number(step.untilMs.from), actor);
    }
  }
}

/** The values come from the log, which the store wrote itself; it checks them again before it stores them. */
async function editBack(
  context: ChannelEditContext,
  subject: string,
  { of, fields }: Extract<UndoStep, { readonly kind: "edit" }>,
  secrets: readonly string[] | null,
  actor: Actor,
): Promise<unknown> {
  const { storage } = context;
  const before = Object.fromEntries(Object.entries(fields).map(([name, { from }]) => [name, from]));
  switch (of) {
    case "key": {
      const key = await storage.keys.get(subject);
      if (key === null) return gone("The key does not exist any more.");
      return conflict("The key", { ...key }, fields) ?? editKey(context, subject, before, actor);
    }
    case "group": {
      const group = await storage.groups.get(subject);
      if (group === null) return gone("The group does not exist any more.");
      return conflict("The group", { ...group }, fields) ?? editGroup(context, subject, before, actor);
    }
    case "account": {
      const account = (await storage.accounts.list()).find(({ name }) => name === subject);
      if (account === undefined) return gone("The account does not exist any more.");
      const { role, group = null, disabledMs } = account;
      const { group: oldGroup, ...rest } = before;
      const edit = oldGroup == null ? rest : { ...rest, group: oldGroup };
      return conflict("The account", { role, group, disabled: disabledMs !== null }, fields) ?? editAccount(context, subject, edit, actor);
    }
    case "channel": {
      const channel = await storage.channels.get(subject);
      if (channel === null) return noSuchChannel;
      const edit = { entry: before, ...(secrets === null ? {} : { secrets }) };
      return conflict("The channel", entryWithoutSecrets(channel.entry), fields) ?? editChannel(context, subject, edit, () => true, actor);
    }
  }
}

async function priceBack(
  context: ChannelEditContext,
  { price, from, to }: Extract<UndoStep, { readonly kind: "price" }>,
  actor: Actor,
): Promise<unknown> {
  const day = (ms: number): number => Math.floor(ms / dayMs);
  const now = (await context.storage.prices.list()).find(
    ({ provider, model, fromMs }) => provider === price.provider && model === price.model && day(fromMs) === day(price.fromMs),
  );
  if (!sameValue(now === undefined ? null : { ...now.rates }, to)) return changedSince("The price", { rates: now?.rates ?? null });
  if (from !== null) return setPrice(context, { ...price, rates: from, note: now?.note ?? null }, actor);
  return now === undefined ? gone("The price does not exist any more.") : removePrice(context, now.id, actor);
}

const dayMs = 86_400_000;

/** The fields whose values are not those that the change left. */
function conflict(what: string, now: Readonly<Record<string, unknown>>, fields: FieldValues): ManageError | null {
  const others = Object.entries(fields).filter(([name, { to }]) => !sameValue(now[name], to));
  return others.length === 0 ? null : changedSince(what, Object.fromEntries(others.map(([name]) => [name, now[name] ?? null])));
}

function changedSince(what: string, now: Readonly<Record<string, unknown>>): ManageError {
  const values = Object.entries(now).map(([name, value]) => `${name} is now ${clipped(JSON.stringify(value))}`);
  return new ManageError("conflict", `${what} has changed again since, so that nothing was undone: ${values.join(", ")}.`);
}

function gone(message: string): ManageError {
  return new ManageError("conflict", message);
}

function clipped(text: string): string {
  return text.length <= shownCharactersMax ? text : `${text.slice(0, shownCharactersMax)}…`;
}

const shownCharactersMax = 300;
