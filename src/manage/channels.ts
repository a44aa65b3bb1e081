import type { Actor, StoredChannel } from "../gateway/storage.ts";
import type { ChannelContext, ChannelEditContext, ChannelStatus, ChannelTest } from "./channel-context.ts";
import {
  hiddenHeaderProblem,
  misplacedProblem,
  placeholderSecrets,
  redirectedSecretsProblem,
  secretEnd,
  withHiddenHeaders,
  type ChannelEdit,
  type StoredChannelEntry,
} from "./channel-secrets.ts";
import type { TestCall, WantedCalls } from "./channel-test/test-calls.ts";
import { revisionOf, type ManageContext } from "./context.ts";
import { changedMeanwhile, ManageError } from "./error.ts";

/** Adds a channel, which every process uses soon after. */
export async function addChannel(
  context: ChannelEditContext,
  { name, entry, secrets }: { readonly name: string; readonly entry: StoredChannelEntry; readonly secrets: readonly string[] },
  actor: Actor,
): Promise<StoredChannel | ManageError> {
  if (context.channels.isInFile(name)) {
    const place = context.definedAt("channels", name);
    return new ManageError("conflict", `A channel in the configuration already has this name (${place}): choose another.`, "name");
  }
  const problem = misplacedProblem(entry) ?? hiddenHeaderProblem(entry) ?? (await entryProblem(context, name, entry, secrets));
  return problem ?? context.storage.channels.create({ name, entry, ...sealed(context, name, secrets) }, actor);
}

/** `isExpected` gets the current revision, and returns whether the change is meant for it. */
export async function editChannel(
  context: ChannelEditContext,
  name: string,
  edit: ChannelEdit,
  isExpected: (revision: string) => boolean,
  actor: Actor,
): Promise<StoredChannel | ManageError> {
  if (context.channels.isInFile(name)) return channelInFile(context, name);
  const secrets = edit.secrets === undefined ? {} : sealed(context, name, edit.secrets);
  let problem: ManageError | null = null;
  const changed = await context.storage.channels.revise(
    name,
    async (before) => {
      const entry = edit.entry === undefined ? before.entry : withHiddenHeaders(before.entry, merged(before.entry, edit.entry));
      problem =
        (isExpected(channelRevision(context, before)) ? null : changedMeanwhile("channel")) ??
        misplacedProblem(entry) ??
        hiddenHeaderProblem(entry) ??
        redirectedSecretsProblem(before, entry, edit) ??
        (await entryProblem(context, name, entry, edit.secrets ?? placeholderSecrets(before)));
      return problem === null ? { ...(edit.entry === undefined ? {} : { entry }), ...secrets } : null;
    },
    actor,
  );
  return changed ?? problem ?? noSuchChannel;
}

/** Removes a channel. Its running calls continue. */
export async function removeChannel(context: ChannelEditContext, name: string, actor: Actor): Promise<ManageError | null> {
  // A channel of the store with the same name as one of the file can be removed.
  if (context.channels.isInFile(name) && (await context.storage.channels.get(name)) === null) return channelInFile(context, name);
  await context.storage.channels.remove(name, actor);
  return null;
}

export async function testChannel({ channels, storage }: ChannelContext, name: string): Promise<ChannelTest | ManageError> {
  const outcome = await channels.test(name);
  if (outcome !== null) return outcome;
  if ((await storage.channels.get(name)) === null) return noSuchChannel;
  return channelNotInUse;
}

const channelNotInUse = new ManageError(
  "not_in_use",
  "The gateway does not use this channel: it was just added, or its settings cannot be used.",
);

/** One small real call for each operation of a channel. They cost a little, so that the audit log says who made them. */
export async function callChannel(
  { channels, storage }: ChannelContext,
  name: string,
  wanted: WantedCalls,
  actor: Actor,
  signal: AbortSignal,
): Promise<readonly TestCall[] | ManageError> {
  const calls = await channels.call(name, wanted, signal);
  if (calls === "busy") return new ManageError("conflict", "The channel is being tested already. Try again when that has ended.");
  if (calls === "absent") return (await storage.channels.get(name)) === null ? noSuchChannel : channelNotInUse;
  const made = calls.map(({ operation, model, ok }) => ({ operation, model, ok }));
  await storage.audit.note("channel.test", name, { calls: made }, actor);
  return calls;
}

/** Returns how many lessons of the channel this process had. */
export async function forgetChannelLessons(context: ChannelContext, name: string, actor: Actor): Promise<number | ManageError> {
  const { channels, storage } = context;
  if (channelStatus(context, name) === null && (await storage.channels.get(name)) === null) return noSuchChannel;
  const forgotten = channels.forget(name);
  await storage.audit.note("channel.forget", name, { forgotten }, actor);
  return forgotten;
}

/** Ends the cool-downs of a channel: the next call asks it again, and if it still fails, it cools down again. */
export async function clearChannelCoolDowns(context: ChannelContext, name: string, actor: Actor): Promise<number | ManageError> {
  const { channels, storage } = context;
  if (channelStatus(context, name) === null && (await storage.channels.get(name)) === null) return noSuchChannel;
  const cleared = channels.clear(name);
  await storage.audit.note("channel.clear", name, { cleared }, actor);
  return cleared;
}

export function channelStatus({ channels }: ChannelContext, name: string): ChannelStatus | null {
  return channels.status().find((status) => status.name === name) ?? null;
}

/** A hash that changes with the channel. */
export function channelRevision({ adminDigest }: Pick<ChannelEditContext, "adminDigest">, channel: StoredChannel): string {
  return revisionOf({ adminDigest }, `channel ${JSON.stringify(channel)}`);
}

export const noSuchChannel: ManageError = new ManageError("not_found", "There is no such channel.");

export function channelInFile({ definedAt }: ManageContext, name: string): ManageError {
  const place = definedAt("channels", name);
  return new ManageError("in_file", `Channel ${name} is defined in ${place}: change it there. The gateway reloads its file by itself.`);
}

function merged(before: StoredChannelEntry, given: StoredChannelEntry): StoredChannelEntry {
  return Object.fromEntries(Object.entries({ ...before, ...given }).filter(([, value]) => value !== null));
}

async function entryProblem(
  { channels }: ChannelEditContext,
  name: string,
  entry: StoredChannelEntry,
  secrets: readonly string[],
): Promise<ManageError | null> {
  const problems = await channels.check({ ...entry, name }, secrets);
  const [first] = problems;
  if (first === undefined) return null;
  const sentences = problems.slice(0, problemsMax).map(({ path, message }) => sentence(path === "" ? message : `${path}: ${message}`));
  const code = first.path === "base_url" ? "url_not_allowed" : "invalid_channel";
  return new ManageError(code, sentences.join(" "), first.path === "" ? "entry" : `entry.${first.path}`);
}

const problemsMax = 5;

/** Problems of the configuration are written without a capital letter and a full stop, except for some. */
function sentence(text: string): string {
  const start = text.startsWith("this ") ? `T${text.slice(1)}` : text;
  return start.endsWith(".") ? start : `${start}.`;
}

function sealed({ channels }: ChannelEditContext, name: string, secrets: readonly string[]): Pick<StoredChannel, "sealed" | "last4"> {
  return { sealed: secrets.length === 0 ? null : channels.seal(name, secrets), last4: secrets.map(secretEnd) };
}
