import { z } from "zod";
import type { LocalModel } from "../channels/channel.ts";
import { externalAccountOf } from "../channels/channel-auth.ts";
import { isPrivateHost, isReserved } from "../channels/network.ts";
import { readChannel } from "./channel.ts";
import { schemaProblems } from "./findings/schema-problems.ts";
import { pathText } from "./findings/problem.ts";
import { channelSchema } from "./schema.ts";
import type { ChannelSetting } from "./settings.ts";

/** A channel that was added at run time, or what is wrong with it. */
export type RuntimeChannel =
  | {
      readonly ok: true;
      readonly setting: ChannelSetting;
      readonly secrets: readonly (readonly [credential: string, secret: string])[];
    }
  | { readonly ok: false; readonly problems: readonly { readonly path: string; readonly message: string }[] };

/**
 * Settings that a channel of the admin API may not have: its keys are sent separately, and callers must not name files or proxies of
 * this machine.
 */
const forbiddenSettings = ["api_key", "api_keys", "api_key_file", "proxy"];

/** As in the file, whose messages it shares. */
const oneChannel = z.strictObject({ channels: z.array(channelSchema) });

/** Ports of other protocols, where an HTTP request could do harm. */
const blockedPorts = new Set([
  7, 9, 19, 20, 21, 22, 23, 25, 53, 69, 110, 111, 135, 139, 143, 179, 389, 445, 465, 587, 636, 873, 993, 995, 2049, 2375, 2376, 2379, 3306,
  3389, 5432, 6379, 6667, 9200, 11211, 27017,
]);

/**
 * Reads a channel that came through the admin API. It has the settings of the configuration file without the secrets, and stricter
 * rules apply, because its author may not be the person who runs this machine.
 */
export function readRuntimeChannel(
  entry: Readonly<Record<string, unknown>>,
  secrets: readonly string[],
  context: { readonly allowPrivate: boolean; readonly localModels: readonly LocalModel[]; readonly own: readonly string[] },
): RuntimeChannel {
  const forbidden = forbiddenSettings.filter((name) => name in entry);
  if (forbidden.length > 0) {
    return { ok: false, problems: forbidden.map((path) => ({ path, message: "This cannot be set here. Send keys as `secrets`." })) };
  }
  const keys = secrets.length === 0 ? {} : secrets.length === 1 ? { api_key: secrets[0] } : { api_keys: secrets };
  const parsed = oneChannel.safeParse({ channels: [{ ...entry, ...keys }] });
  if (!parsed.success) {
    const found = schemaProblems(parsed.error.issues, oneChannel, () => null);
    return { ok: false, problems: found.map(({ path, reason, fix }) => ({ path: withoutList(path), message: `${reason}: ${fix}` })) };
  }
  const [channel] = parsed.data.channels;
  const reading = readChannel(channel!, ["channels", 0], { readSecretFile: () => null, localModels: context.localModels });
  const problems = reading.findings
    .filter(({ severity }) => severity === "problem")
    .map(({ path, reason, fix }) => ({ path: withoutList(pathText(path)), message: `${reason}: ${fix}` }));
  if (reading.setting === null || problems.length > 0) return { ok: false, problems };
  const isMachine =
    secrets.length === 0 || (reading.setting.auth?.kind === "google" && secrets.some((one) => externalAccountOf(one) !== null));
  if (reading.setting.auth !== undefined && isMachine) return { ok: false, problems: [identityOfMachine] };
  const addressProblem = forbiddenAddress(reading.setting, context);
  if (addressProblem !== null) return { ok: false, problems: [{ path: "base_url", message: addressProblem }] };
  return { ok: true, setting: { ...reading.setting, reach: context.allowPrivate ? "any" : "public" }, secrets: reading.secrets };
}

/** Who may add channels may still not act as the machine, nor name its files. */
const identityOfMachine = {
  path: "auth",
  message: "This needs `secrets` of its own: the identity of this machine can be used in the file only.",
};

/** Checks the address itself. What its host name resolves to is checked again with each connection. */
function forbiddenAddress(
  { address }: ChannelSetting,
  { allowPrivate, own }: { readonly allowPrivate: boolean; readonly own: readonly string[] },
): string | null {
  if (!address.baseUrl.startsWith("http")) return null;
  if (own.includes(address.host)) return "This is the gateway's own address, so calls would loop.";
  const { hostname, port } = new URL(address.baseUrl);
  if (blockedPorts.has(Number(port))) return "This port belongs to another protocol and is not allowed.";
  if (!allowPrivate && isPrivateHost(hostname)) {
    return "This is a private address. Channels at private addresses belong in the configuration file, or need `allow_private: true` there.";
  }
  if (!allowPrivate && isReserved(hostname)) {
    return "This address is in a reserved range, not on the public internet, so the gateway would never connect to it. Give the address of the upstream.";
  }
  return null;
}

function withoutList(path: string): string {
  return path.replace(/^channels\[0\]\.?/, "");
}
