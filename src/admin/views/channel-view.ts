import { z } from "zod";
import { entryWithoutSecrets } from "../../channels/entry-without-secrets.ts";
import type { StoredChannel } from "../../gateway/storage.ts";
import { learnedAnswer, shownLessons } from "./learned-view.ts";
import type { ChannelStatus } from "../../manage/channel-context.ts";
import { isoMoment, isoOrNull } from "../../usage/time-text.ts";
import { moment } from "../fields/scalars.ts";

/** A channel in answers: its settings and its state, without its secrets. */
export const channelAnswer = z.strictObject({
  name: z.string(),
  source: z.enum(["file", "store"]).describe("Where it is kept. Channels of the configuration file are changed there."),
  state: z
    .enum(["ready", "impaired", "cooling", "idle", "absent"])
    .describe("`absent`: this process does not use it, because it was just created or its settings cannot be used."),
  provider: z.string().nullable(),
  base_url: z.string().nullable(),
  tier: z.number().nullable(),
  weight: z.number().nullable(),
  tags: z.array(z.string()),
  models: z.array(z.string()).nullable().describe("As clients name them; null if it takes any model, or is absent."),
  running: z.int().describe("Calls in flight in this process."),
  concurrency: z.int().nullable(),
  cooling_until_at: moment.nullable(),
  troubles: z.array(z.strictObject({ scope: z.string(), standing: z.enum(["half_open", "open"]), cause: z.string(), until_at: moment })),
  learned: learnedAnswer,
  entry: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe("The settings as in the configuration file; null for channels of that file."),
  secrets: z.array(z.strictObject({ last4: z.string() })),
  created_at: moment.nullable(),
  updated_at: moment.nullable(),
  etag: z
    .string()
    .nullable()
    .describe("Changes with the channel. Send it as `if-match`, in quotes, to make a change only if the channel has not changed since."),
});

export type ChannelView = z.input<typeof channelAnswer>;

export function shownChannel(
  name: string,
  status: ChannelStatus | null,
  stored: StoredChannel | null,
  tagOf: (stored: StoredChannel) => string,
): ChannelView {
  const cooling = status?.state === "cooling" ? status.troubles.map(({ untilMs }) => untilMs) : [];
  return {
    name,
    source: status?.source ?? "store",
    state: status?.state ?? "absent",
    provider: status?.provider ?? null,
    base_url: status?.baseUrl ?? null,
    tier: status?.tier ?? null,
    weight: status?.weight ?? null,
    tags: [...(status?.tags ?? [])],
    models: status?.models == null ? null : [...status.models],
    running: status?.running ?? 0,
    concurrency: status?.concurrencyMax ?? null,
    cooling_until_at: cooling.length === 0 ? null : isoMoment(Math.min(...cooling)),
    troubles: (status?.troubles ?? []).map(({ scope, state, cause, untilMs }) => ({
      scope,
      standing: state,
      cause,
      until_at: isoMoment(untilMs),
    })),
    learned: shownLessons(status?.learned ?? []),
    entry: stored === null ? null : { ...entryWithoutSecrets(stored.entry) },
    secrets: (stored?.last4 ?? []).map((last4) => ({ last4 })),
    created_at: isoOrNull(stored?.createdMs ?? null),
    updated_at: isoOrNull(stored?.updatedMs ?? null),
    etag: stored === null ? null : tagOf(stored),
  };
}
