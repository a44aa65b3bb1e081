import type { RunningAdminApi } from "../admin-api.ts";
import type { CommandSurroundings } from "../command-context.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import { json } from "../shown-text.ts";
import { table } from "../table.ts";
import type { ChannelListRequest, ChannelsRequest } from "./arguments.ts";

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

interface ChannelTestAnswer {
  readonly ok: boolean;
  readonly status: number | null;
  readonly code: string;
  readonly took_ms: number;
}

/** Lets a gateway elsewhere make a small call itself, and returns the exit code. */
export async function testChannelOf(request: ChannelsRequest, api: RunningAdminApi, { terminal }: CommandSurroundings): Promise<number> {
  if (request.model !== null || request.operations !== null) {
    throw new CommandError("A gateway elsewhere chooses the call itself: leave --model and --operations out.", exitCodes.usage);
  }
  const answer = await api.json<ChannelTestAnswer>("POST", `/channels/${encodeURIComponent(request.name)}/test`, {});
  const { ok, status, code, took_ms } = answer;
  if (request.json) terminal.print(json({ channel: request.name, ...answer }));
  else terminal.print(`${ok ? "ok" : `failed: ${code}${status === null ? "" : ` (${status})`}`} after ${took_ms} ms`);
  return ok ? 0 : exitCodes.failure;
}
