import type { RunningAdminApi } from "../admin-api.ts";
import type { TestCall } from "../../manage/channel-test/test-calls.ts";
import type { CommandSurroundings } from "../command-context.ts";
import { placeOf } from "../management/api-paths.ts";
import { json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { ChannelListRequest, ChannelsRequest } from "./arguments.ts";
import { reportTest } from "./command.ts";

/** What is shown of a channel as the admin API describes it. */
interface ListedChannel {
  readonly name: string;
  readonly source: string;
  readonly state: string;
  readonly provider: string | null;
  readonly tier: number | null;
  readonly models: readonly string[] | null;
  readonly running: number;
  readonly troubles: readonly { readonly scope: string; readonly cause: string }[];
}

export async function listChannels(request: ChannelListRequest, api: RunningAdminApi, { terminal }: CommandSurroundings): Promise<void> {
  const { channels } = await api.json<{ readonly channels: readonly ListedChannel[] }>("GET", "/channels");
  if (request.json) terminal.print(json(channels));
  else if (channels.length === 0) terminal.say("The gateway has no channels.");
  else terminal.print(table(columns, channels));
}

const columns = [
  { title: "NAME", cell: ({ name }: ListedChannel) => name },
  { title: "STATE", cell: ({ state }: ListedChannel) => state },
  { title: "PROVIDER", cell: ({ provider }: ListedChannel) => provider ?? "-" },
  { title: "TIER", cell: ({ tier }: ListedChannel) => (tier === null ? "-" : String(tier)), right: true },
  { title: "RUNNING", cell: ({ running }: ListedChannel) => String(running), right: true },
  { title: "MODELS", cell: ({ models }: ListedChannel) => (models === null ? "any" : String(models.length)), right: true },
  { title: "SOURCE", cell: ({ source }: ListedChannel) => source },
  { title: "TROUBLE", cell: ({ troubles }: ListedChannel) => troubles.map(({ scope, cause }) => `${scope}: ${cause}`).join(", ") },
];

/** A call as the admin API describes it. */
type AnsweredCall = Omit<TestCall, "tookMs" | "audio"> & {
  readonly took_ms: number;
  readonly audio: { readonly type: string; readonly base64: string } | null;
};

/** Lets a gateway elsewhere make the calls, and returns the exit code. */
export async function testChannelOf(request: ChannelsRequest, api: RunningAdminApi, { terminal }: CommandSurroundings): Promise<number> {
  const { model, operations } = request;
  const wanted = { ...(model === null ? {} : { model }), ...(operations === null ? {} : { operations }) };
  const path = `${placeOf("channels", request.name)}/calls`;
  const { calls } = await api.json<{ readonly calls: readonly AnsweredCall[] }>("POST", path, wanted, testMsMax);
  return reportTest(request, calls.map(testCallOf), terminal);
}

/** Somewhat longer than the gateway takes at most: a model of its machine may have to be loaded first. */
const testMsMax = 16 * 60_000;

function testCallOf({ took_ms, audio, ...call }: AnsweredCall): TestCall {
  const spoken = audio === null ? null : { type: audio.type, bytes: new Uint8Array(Buffer.from(audio.base64, "base64")) };
  return { ...call, tookMs: took_ms, audio: spoken };
}
