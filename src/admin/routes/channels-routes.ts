import { z } from "zod";
import type { StoredChannel } from "../../gateway/storage.ts";
import type { ChannelStatus, ChannelTest } from "../../manage/channel-context.ts";
import {
  addChannel,
  callChannel,
  clearChannelCoolDowns,
  channelRevision,
  channelStatus,
  editChannel,
  forgetChannelLessons,
  noSuchChannel,
  removeChannel,
  testChannel,
} from "../../manage/channels.ts";
import type { TestCall } from "../../manage/channel-test/test-calls.ts";
import { ManageError } from "../../manage/error.ts";
import { presets } from "../../dialects/presets.ts";
import { channelAnswer, shownChannel, type ChannelView } from "../views/channel-view.ts";
import { operation } from "../views/key-view.ts";
import { invalid, adminErrorOf, type AdminError } from "../admin-error.ts";
import { expectedRevision, route, withRevision, type AdminRoute, type ResultWithHeaders } from "../route.ts";
import type { Services } from "../services.ts";

const channelName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be up to 64 letters, digits, dots, dashes and underscores");
const entry = z
  .record(z.string().max(64), z.unknown())
  .describe("The settings of the channel, as in the configuration file, without its name and its keys.");
const secrets = z.array(z.string().min(1).max(8192)).max(100).describe("The upstream's keys. They are never shown again.");

/** Each of a handful of calls may take two minutes. */
const testMsMax = 15 * 60_000;

export const testCallAnswer = z.strictObject({
  operation,
  model: z.string().nullable().describe("Null if no model of the channel is known to support the operation."),
  ok: z.boolean(),
  status: z.int().nullable(),
  took_ms: z.int(),
  outcome: z.string().describe("What came of it, or what a client would have been told, in a few words."),
  text: z.string().nullable().describe("What the model wrote or heard."),
  audio: z.strictObject({ type: z.string(), base64: z.string() }).nullable().describe("What it spoke."),
});

/** The providers that are known by name, and the channels: those of the configuration file can be read, those of the store also changed. */
export const channelsRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/providers",
    access: "viewer",
    summary: "Lists the providers that a channel can name, with their addresses.",
    answer: z.strictObject({
      providers: z.array(
        z.strictObject({
          name: z.string(),
          base_url: z.string().describe("May contain `{resource}` or `{region}`, which the channel has to set."),
          needs_key: z.boolean(),
          operations: z.array(operation),
        }),
      ),
    }),
    handle: ({ services }) => ({
      providers: presets
        .filter(({ local }) => !local || services.hasLocalModels())
        .map(({ name, baseUrl, needsKey, operations }) => ({ name, base_url: baseUrl, needs_key: needsKey, operations: [...operations] })),
    }),
  }),
  route({
    method: "GET",
    path: "/admin/api/channels",
    access: "viewer",
    summary: "Lists the channels, with their state in this process.",
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
    summary: "Shows one channel.",
    answer: channelAnswer,
    handle: async ({ params: { name }, services }) => {
      const status = channelStatus(services, name);
      const stored = ownRow(status, await services.storage.channels.get(name));
      return status === null && stored === null ? adminErrorOf(noSuchChannel) : tagged(shown(services, name, status, stored));
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
    handle: async ({ body: { name, entry, secrets = [] }, services, actor }) =>
      stored(services, await addChannel(services, { name, entry, secrets }, actor)),
  }),
  route({
    method: "PATCH",
    path: "/admin/api/channels/{name}",
    access: "admin",
    summary:
      "Changes a channel. Settings that are not in `entry` stay as they are, and null removes one; `secrets` replaces all secrets. " +
      "With `if-match`, only if the channel has not changed since.",
    conditional: true,
    body: z.strictObject({ entry: entry.optional(), secrets: secrets.optional() }),
    answer: channelAnswer,
    handle: async ({ params: { name }, body, services, actor, ifMatch }) => {
      if (body.entry === undefined && body.secrets === undefined) return invalid(null, "Nothing to change: give entry or secrets.");
      return stored(services, await editChannel(services, name, body, expectedRevision(ifMatch) ?? (() => true), actor));
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/channels/{name}",
    access: "admin",
    summary: "Removes a channel. Its running calls continue.",
    answer: z.strictObject({ removed: z.string() }),
    handle: async ({ params: { name }, services, actor }) => {
      const problem = await removeChannel(services, name, actor);
      if (problem !== null) return adminErrorOf(problem);
      return { removed: name };
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/channels/{name}/learned",
    access: "admin",
    summary:
      "Forgets what was learned from refusals of the channel's upstream, such as the most output tokens of a model, in all processes.",
    answer: z.strictObject({ forgotten: z.int().describe("How many lessons this process had.") }),
    handle: async ({ params: { name }, services, actor }) => {
      const forgotten = await forgetChannelLessons(services, name, actor);
      return forgotten instanceof ManageError ? adminErrorOf(forgotten) : { forgotten };
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/channels/{name}/cool-downs",
    access: "admin",
    summary: "Ends the cool-downs of a channel in all processes: the next call asks it again. If it still fails, it cools down again.",
    answer: z.strictObject({ cleared: z.int().describe("How many cool-downs this process had.") }),
    handle: async ({ params: { name }, services, actor }) => {
      const cleared = await clearChannelCoolDowns(services, name, actor);
      return cleared instanceof ManageError ? adminErrorOf(cleared) : { cleared };
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/channels/{name}/test",
    access: "admin",
    summary: "Asks the upstream of a channel for its list of models, which costs nothing, and reports the outcome.",
    body: z.strictObject({}),
    answer: z.strictObject({ ok: z.boolean(), status: z.int().nullable(), code: z.string(), took_ms: z.int() }),
    handle: async ({ params: { name }, services }) => {
      const outcome = await testChannel(services, name);
      return outcome instanceof ManageError ? adminErrorOf(outcome) : shownTest(outcome);
    },
  }),
  route({
    method: "POST",
    path: "/admin/api/channels/{name}/calls",
    access: "admin",
    summary:
      "Makes one small real call for each operation of a channel, and shows what it answered. The calls cost a little; they are on no receipt.",
    body: z.strictObject({
      model: z.string().min(1).max(256).optional().describe("As clients name it. Absent: the first model of each operation."),
      operations: z.array(operation).min(1).max(8).optional().describe("Absent: each that it serves, but images, which cost the most."),
    }),
    answer: z.strictObject({ calls: z.array(testCallAnswer) }),
    answerMs: testMsMax,
    handle: async ({ params: { name }, body, services, actor, signal }) => {
      const wanted = { model: body.model ?? null, operations: body.operations ?? null };
      const calls = await callChannel(services, name, wanted, actor, signal);
      return calls instanceof ManageError ? adminErrorOf(calls) : { calls: calls.map(shownCall) };
    },
  }),
];

function shownCall({ audio, tookMs, ...call }: TestCall): z.output<typeof testCallAnswer> {
  const content = audio === null ? null : { type: audio.type, base64: Buffer.from(audio.bytes).toString("base64") };
  return { ...call, took_ms: tookMs, audio: content };
}

/** A channel of the store with the same name as one of the file is not used, and not shown. */
function ownRow(status: ChannelStatus | null, stored: StoredChannel | null): StoredChannel | null {
  return status?.source === "file" ? null : stored;
}

function shown(services: Services, name: string, status: ChannelStatus | null, channel: StoredChannel | null): ChannelView {
  return shownChannel(name, status, channel, (one) => channelRevision(services, one));
}

function stored(services: Services, result: StoredChannel | ManageError): ResultWithHeaders<ChannelView> | AdminError {
  if (result instanceof ManageError) return adminErrorOf(result);
  return tagged(shown(services, result.name, channelStatus(services, result.name), result));
}

function tagged(view: ChannelView): ResultWithHeaders<ChannelView> {
  return withRevision(view, view.etag);
}

/** Shows only a status and a code of ours, never text of the upstream. */
function shownTest({ ok, status, code, tookMs }: ChannelTest) {
  return {
    ok,
    status: status !== null && Number.isInteger(status) && status >= 100 && status <= 599 ? status : null,
    code: /^[a-z][a-z0-9_]{0,39}$/.test(code) ? code : "unknown",
    took_ms: Math.round(tookMs),
  };
}
