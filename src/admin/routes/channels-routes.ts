import { z } from "zod";
import type { StoredChannel } from "../../gateway/storage.ts";
import { channelTag, matches } from "../views/channel-revision.ts";
import { channelAnswer, headersOf, hiddenValue, shownChannel, type ChannelView } from "../views/channel-view.ts";
import { invalid, notFound, Refusal } from "../refusal.ts";
import { HeadedAnswer, route, type Route } from "../route.ts";
import type { ChannelStatus, ChannelTest, Services } from "../services.ts";

const channelName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be up to 64 letters, digits, dots, dashes and underscores");
const entry = z
  .record(z.string().max(64), z.unknown())
  .describe("What the configuration file would say of the channel, without its name and its keys.");
const secrets = z.array(z.string().min(1).max(8192)).max(100).describe("The upstream's keys. They are never shown again.");

/** Where calls go. */
export const channelsRoutes: readonly Route[] = [
  route({
    method: "GET",
    path: "/admin/api/channels",
    access: "viewer",
    summary: "Lists the channels, and how each of them is in this process.",
    answer: z.strictObject({ channels: z.array(channelAnswer) }),
    handle: async ({ services }) => {
      const running = services.channels.status();
      const stored = new Map((await services.reports.channels.list()).map((channel) => [channel.name, channel]));
      const present = new Set(running.map(({ name }) => name));
      const absent = [...stored.values()].filter(({ name }) => !present.has(name));
      return {
        channels: [
          ...running.map((status) => shown(services, status.name, status, ownRow(status, stored.get(status.name) ?? null))),
          ...absent.map((channel) => shown(services, channel.name, null, channel)),
        ],
      };
    },
  }),
  route({
    method: "GET",
    path: "/admin/api/channels/{name}",
    access: "viewer",
    summary: "One channel.",
    answer: channelAnswer,
    handle: async ({ params: { name }, services }) => {
      const status = statusOf(services, name);
      const stored = ownRow(status, await services.storage.channels.get(name));
      return status === null && stored === null ? notFound("channel") : tagged(shown(services, name, status, stored));
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/channels",
    access: "admin",
    summary: "Adds a channel. Every process uses it within moments.",
    body: z.strictObject({ name: channelName, entry, secrets: secrets.optional() }),
    answer: channelAnswer,
    status: 201,
    handle: async ({ body: { name, entry, secrets = [] }, services, actor }) => {
      if (statusOf(services, name)?.source === "file") {
        return new Refusal(409, "conflict", "A channel of the configuration file has that name: choose another.", "name");
      }
      const refused = misplaced(entry) ?? unknownHidden(entry) ?? (await problemOf(services, name, entry, secrets));
      if (refused !== null) return refused;
      return stored(services, await services.storage.channels.create({ name, entry, ...kept(services, name, secrets) }, actor));
    },
  }),
  route({
    method: "PATCH",
    path: "/admin/api/channels/{name}",
    access: "admin",
    summary:
      "Changes a channel. Of `entry`, settings that are not given stay, and null removes one; `secrets` replaces all of them. " +
      "With `if-match`, only if it is still what that names.",
    conditional: true,
    body: z.strictObject({ entry: entry.optional(), secrets: secrets.optional() }),
    answer: channelAnswer,
    handle: async ({ params: { name }, body, services, actor, ifMatch }) => {
      if (body.entry === undefined && body.secrets === undefined) return invalid(null, "Nothing to change: give entry or secrets.");
      if (statusOf(services, name)?.source === "file") return ofFile;
      const sealed = body.secrets === undefined ? {} : kept(services, name, body.secrets);
      let refused: Refusal | null = null;
      const changed = await services.storage.channels.revise(
        name,
        async (before) => {
          const entry = body.entry === undefined ? before.entry : withHidden(before.entry, overlaid(before.entry, body.entry));
          refused =
            (matches(ifMatch, channelTag(before, services)) ? null : changedBetween) ??
            misplaced(entry) ??
            unknownHidden(entry) ??
            secretsLed(before, entry, body) ??
            (await problemOf(services, name, entry, body.secrets ?? standIns(before)));
          return refused === null ? { ...(body.entry === undefined ? {} : { entry }), ...sealed } : null;
        },
        actor,
      );
      return changed === null ? (refused ?? notFound("channel")) : stored(services, changed);
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/channels/{name}",
    access: "admin",
    summary: "Removes a channel. Calls that are under way on it go on.",
    answer: z.strictObject({ removed: z.string() }),
    handle: async ({ params: { name }, services, actor }) => {
      // One of the store that hides behind one of the file can go.
      if (statusOf(services, name)?.source === "file" && (await services.storage.channels.get(name)) === null) return ofFile;
      await services.storage.channels.remove(name, actor);
      return { removed: name };
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/channels/{name}/learned",
    access: "admin",
    summary:
      "Forgets what refusals of the channel's upstream taught, such as the most output tokens of a model: in every process within moments.",
    answer: z.strictObject({ forgotten: z.int().describe("How much it was in this process.") }),
    handle: async ({ params: { name }, services, actor }) => {
      if (statusOf(services, name) === null && (await services.storage.channels.get(name)) === null) return notFound("channel");
      const forgotten = services.channels.forget(name);
      await services.storage.audit.note("channel.forget", name, { forgotten }, actor);
      return { forgotten };
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/channels/{name}/test",
    access: "admin",
    summary: "Asks the upstream of a channel for something small, and says how that went. Nothing it writes is shown.",
    body: z.strictObject({}),
    answer: z.strictObject({ ok: z.boolean(), status: z.int().nullable(), code: z.string(), took_ms: z.int() }),
    handle: async ({ params: { name }, services }) => {
      const outcome = await services.channels.test(name);
      if (outcome !== null) return shownTest(outcome);
      if ((await services.storage.channels.get(name)) === null) return notFound("channel");
      return new Refusal(409, "not_in_use", "This process does not use the channel: it was made a moment ago, or cannot be used as it is.");
    },
  }),
];

function statusOf(services: Services, name: string): ChannelStatus | null {
  return services.channels.status().find((status) => status.name === name) ?? null;
}

/** Where the file has the name, a channel of the store with the same name is not used, and not shown. */
function ownRow(status: ChannelStatus | null, stored: StoredChannel | null): StoredChannel | null {
  return status?.source === "file" ? null : stored;
}

function shown(services: Services, name: string, status: ChannelStatus | null, channel: StoredChannel | null): ChannelView {
  return shownChannel(name, status, channel, (one) => channelTag(one, services));
}

function stored(services: Services, channel: StoredChannel): HeadedAnswer<ChannelView> {
  return tagged(shown(services, channel.name, statusOf(services, channel.name), channel));
}

function tagged(view: ChannelView): HeadedAnswer<ChannelView> {
  return new HeadedAnswer(view, view.etag === null ? {} : { etag: `"${view.etag}"` });
}

/** Settings that are not given stay; null removes one. */
function overlaid(before: StoredChannel["entry"], given: StoredChannel["entry"]): StoredChannel["entry"] {
  return Object.fromEntries(Object.entries({ ...before, ...given }).filter(([, value]) => value !== null));
}

/** What has a place of its own: a key in the entry would be kept for everybody to read. */
function misplaced(entry: StoredChannel["entry"]): Refusal | null {
  if (Object.hasOwn(entry, "name")) return invalid("entry.name", "The field 'entry.name': the name stands beside the entry, and stays.");
  const key = ["api_key", "api_keys", "api_key_file"].find((setting) => Object.hasOwn(entry, setting));
  if (key === undefined) return null;
  return new Refusal(400, "invalid_channel", `The field 'entry.${key}': this cannot be set here. Give keys as 'secrets'.`, `entry.${key}`);
}

async function problemOf(
  services: Services,
  name: string,
  entry: StoredChannel["entry"],
  secrets: readonly string[],
): Promise<Refusal | null> {
  const problems = await services.channels.check({ ...entry, name }, secrets);
  const [first] = problems;
  if (first === undefined) return null;
  const told = problems.slice(0, problemsMax).map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  const code = first.path === "base_url" ? "url_not_allowed" : "invalid_channel";
  return new Refusal(400, code, told.join(" "), first.path === "" ? "entry" : `entry.${first.path}`);
}

const problemsMax = 5;

/** Whoever sends back what they were shown means the values that they were not. */
function withHidden(before: StoredChannel["entry"], entry: StoredChannel["entry"]): StoredChannel["entry"] {
  const [old, given] = [headersOf(before), headersOf(entry)];
  if (old === null || given === null) return entry;
  const kept = Object.entries(given).map(([name, value]) => [name, value === hiddenValue && Object.hasOwn(old, name) ? old[name] : value]);
  return { ...entry, headers: Object.fromEntries(kept) };
}

function unknownHidden(entry: StoredChannel["entry"]): Refusal | null {
  const hidden = Object.entries(headersOf(entry) ?? {}).find(([, value]) => value === hiddenValue);
  return hidden === undefined ? null : invalid("entry.headers", `The field 'entry.headers': give a value in the place of ${hiddenValue}.`);
}

/**
 * Whoever may change a channel may read neither its secrets nor its headers, and must not have them sent elsewhere either: with
 * a new address they are to be given again.
 */
function secretsLed(before: StoredChannel, entry: StoredChannel["entry"], given: ChannelPatch): Refusal | null {
  const moved = leading.find((setting) => JSON.stringify(before.entry[setting]) !== JSON.stringify(entry[setting]));
  if (moved === undefined) return null;
  if (given.secrets === undefined && before.sealed !== null) {
    return new Refusal(400, "secrets_needed", `With another '${moved}' the keys go elsewhere: give them again as 'secrets'.`, "secrets");
  }
  const headers = headersOf(before.entry) ?? {};
  const fresh = headersOf(given.entry ?? {});
  const taken = Object.keys(headersOf(entry) ?? {}).find(
    (name) => Object.hasOwn(headers, name) && (fresh?.[name] ?? hiddenValue) === hiddenValue,
  );
  if (taken === undefined) return null;
  return new Refusal(
    400,
    "secrets_needed",
    `With another '${moved}' the headers go elsewhere: give them again as 'entry.headers', or null.`,
    "entry.headers",
  );
}

interface ChannelPatch {
  readonly entry?: StoredChannel["entry"] | undefined;
  readonly secrets?: readonly string[] | undefined;
}

const leading = ["base_url", "provider", "resource", "region", "api_version", "dialect", "auth_header"];

/** In the place of secrets that stay and that nobody can read: as many, and each another. */
function standIns({ last4 }: StoredChannel): readonly string[] {
  return last4.map((end, at) => `kept-${at}-${end.replaceAll(/[^\x21-\x7e]/g, "")}`);
}

function kept(services: Services, name: string, secrets: readonly string[]): Pick<StoredChannel, "sealed" | "last4"> {
  return { sealed: secrets.length === 0 ? null : services.channels.seal(name, secrets), last4: secrets.map(endOf) };
}

/** The end of a short secret would be too much of it. */
function endOf(secret: string): string {
  return secret.length < shownFrom ? "****" : secret.slice(-4);
}

const shownFrom = 16;

/** Whatever the test found, only a status and a word of ours leave this door. */
function shownTest({ ok, status, code, tookMs }: ChannelTest) {
  return {
    ok,
    status: status !== null && Number.isInteger(status) && status >= 100 && status <= 599 ? status : null,
    code: /^[a-z][a-z0-9_]{0,39}$/.test(code) ? code : "unknown",
    took_ms: Math.round(tookMs),
  };
}

const changedBetween = new Refusal(
  412,
  "precondition_failed",
  "Somebody changed the channel since you read it: read it again, and decide anew.",
  "if-match",
);

const ofFile = new Refusal(
  409,
  "in_file",
  "This channel stands in the configuration file: change it there, and the gateway reads it again.",
);
