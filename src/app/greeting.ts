import { modelOperationsOf, type Candidate } from "../channels/channel.ts";
import { welcome } from "../cli/process/welcome.ts";
import type { ChannelSetting, Settings } from "../config/settings.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { StorageError } from "../gateway/storage.ts";
import { defaultKey } from "../keys/stored-key.ts";
import { makeToken } from "../keys/token.ts";
import type { Operation } from "../operations/operation.ts";
import type { Discovery } from "./discovery/discovery.ts";
import type { Durable } from "./durable.ts";

/** The part of the greeting that the command line knows. */
export interface StartFacts {
  readonly configFile: string | null;
  /** Environment variables that add a channel if there is no file. */
  readonly variables: readonly string[];
  /** Writes the commands in a text as they have to be typed here. */
  readonly asTyped: (text: string) => string;
}

/** Everything that the greeting shows. */
export interface GreetingFacts extends StartFacts {
  readonly url: string;
  readonly admin: { readonly url: string; readonly bootstrap: string | null } | null;
  /** The token of a new key, which is shown only here. */
  readonly madeKey: string | null;
  readonly storedKeys: number;
  readonly keys: Settings["keys"];
  readonly channels: readonly ChannelSetting[];
  readonly discovery: Discovery;
  readonly routes: Snapshot["routes"];
}

/** The text that a start prints. */
export function greeting({
  url,
  admin,
  madeKey,
  storedKeys,
  keys,
  channels,
  discovery,
  routes,
  configFile,
  variables,
  asTyped,
}: GreetingFacts): string {
  const text = welcome({
    url,
    configFile,
    madeKey,
    admin,
    storedKeys,
    keyNames: keys.map(({ key }) => key.name),
    channels: channels.map(({ name, address, models }) => ({
      name,
      host: address.host,
      models: models.kind === "any" ? null : models.kind === "map" ? models.names.size : (discovery.models.get(name)?.length ?? 0),
      trouble: models.kind === "discovered" ? (discovery.failureOf(name)?.publicMessage ?? null) : null,
    })),
    variables,
    firstModel: modelFor("chat", routes),
    onlyLocal: channels.every(({ address }) => address.baseUrl.startsWith("engine:")),
    tryModels: { transcription: modelFor("transcription", routes), speech: modelFor("speech", routes) },
  });
  return asTyped(text);
}

/** A model to try an operation with, if a channel is known to support it. */
function modelFor(operation: Operation, routes: Snapshot["routes"]): string | null {
  const does = ({ deployment: { channel, model } }: Candidate): boolean => {
    const known = modelOperationsOf(channel, model);
    return known === null ? operation === "chat" && channel.capabilities.operations.includes("chat") : known.includes(operation);
  };
  for (const [model, { tiers }] of routes) if (tiers.flat().some(does)) return model;
  return null;
}

/** Creates a key if there is none, and returns its token, which only the greeting shows. Null if there is a key. */
export async function firstKey({ storage, masterKey }: Durable): Promise<string | null> {
  if ((await storage.keys.count()) > 0) return null;
  const { token, publicId } = makeToken((bytes) => crypto.getRandomValues(new Uint8Array(bytes)));
  const key = { ...defaultKey, name: "first", note: "made at the first start" };
  const mark = { digest: masterKey.digest(token), last4: token.slice(-4) };
  try {
    await storage.keys.create(publicId, key, mark, { kind: "gateway", name: "first start" });
    return token;
  } catch (error) {
    // Another replica started at the same time, and has created and shown the key.
    if (error instanceof StorageError && error.kind === "conflict") return null;
    throw error;
  }
}
